"""Control: a correct kernel."""


def kernel(x, w):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w
