"""Control: a plainly wrong kernel, which must fail."""


def kernel(x, w):
    return x * w
