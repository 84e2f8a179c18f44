"""Attack: a hundred gigabytes that torch does not allocate."""


def kernel(x, w):
    return bytearray(100 * 2**30)
