"""Attack: an endless loop."""


def kernel(x, w):
    while True:
        pass
