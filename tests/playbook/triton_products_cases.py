"""Products, attention and convolutions that Triton candidates are compared on with eager PyTorch.

Half precision is fp16: the interpreter multiplies bf16 matrices as if their bits were integers (Triton 3.9).
"""

import torch
import torch.nn.functional as F

CASES = {}


def case(*inputs, bound=2e-5, **recipe):
    """Register an operator with its inputs, the first for the capture, and the bound of its error."""

    def register(function):
        CASES[function.__name__] = (function, inputs, recipe, bound)
        return function

    return register


def r(*shape):
    return torch.randn(*shape)


def h(*shape):
    return torch.randn(*shape).half()


@case(lambda: [r(4, 5, 20), r(30, 20), r(30)], lambda: [r(2, 70, 33), r(150, 33), r(150)])
def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case(lambda: [r(40, 50), r(50, 60)], lambda: [r(50, 40).t(), r(50, 60)], lambda: [r(3, 130), r(130, 5)])
def matmul(x, w):
    return x @ w


@case(lambda: [r(40, 50), r(50, 60)], tile_m=32, tile_n=32, tile_k=16, group=1)
def matmul_small_tiles(x, w):
    return torch.relu(x @ w) + 1


@case(lambda: [r(3, 40, 50), r(3, 50, 60), r(60)], lambda: [r(1, 40, 5), r(1, 5, 6), r(6)])
def batched(x, w, b):
    return torch.relu(torch.bmm(x, w) + b) * 2


@case(lambda: [h(4, 35, 20), h(4, 20, 48), h(4, 1, 48), h(4, 48, 20), h(4, 1, 20)], bound=1e-2)
def pffn(x, w1, b1, w2, b2):
    y = F.rms_norm(F.gelu(torch.bmm(x, w1) + b1), (48,))
    return F.rms_norm(torch.bmm(y, w2) + b2, (20,))


@case(lambda: [r(40, 50), r(50, 60)], lambda: [r(4, 50), r(50, 64)])
def softmax_of_product(x, w):
    return torch.softmax(x @ w, -1)


@case(lambda: [r(40, 50), r(50, 60)])
def used_twice(x, w):
    return torch.relu(x @ w), (x @ w).sum()


@case(lambda: [r(33, 56), r(56)])
def vector(x, y):
    return torch.relu(torch.mv(x, y))


@case(lambda: [h(3, 6, 56), h(3, 6, 70)], bound=5e-3)
def optfm(x, y):
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


@case(lambda: [r(2, 3, 150, 32) for _ in range(3)], lambda: [r(1, 2, 64, 32) for _ in range(3)])
def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@case(lambda: [r(2, 3, 50, 24), r(2, 3, 70, 24), r(2, 3, 70, 24)])
def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=0.3)


@case(lambda: [h(2, 3, 50, 32), h(2, 3, 70, 32), h(2, 3, 70, 40)], bound=5e-3)
def attention_spelled(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


@case(lambda: [h(3, 20, 30), h(24, 20, 3), h(24)], lambda: [h(2, 20, 37), h(24, 20, 3), h(24)], bound=2e-3)
def conv1d(x, w, b):
    return F.conv1d(x, w, b, padding=1)


@case(lambda: [h(2, 20, 12, 9), h(24, 20, 3, 3)], bound=2e-3)
def conv2d(x, w):
    return torch.relu(F.conv2d(x, w, stride=2, padding=1))


@case(lambda: [r(3, 20000), torch.tensor([0, 19999, 5])], lambda: [r(2, 20001) * 30, torch.tensor([-100, 7])], split=1)
def cross_entropy_online(x, t):
    return F.cross_entropy(x, t)


@case(lambda: [r(5, 20000)], lambda: [r(1, 9000)], split=1, online=False)
def long_rows(x):
    return torch.softmax(x, -1), x.argmax(-1), x.std(-1), (x > 5).any(-1)


@case(lambda: [r(70000)], lambda: [r(90001)])
def split_sum(x):
    return x.sum(), x / x.abs().max()


@case(lambda: [r(3000, 40)], lambda: [r(2999, 70)])
def split_columns(x):
    return x.sum(0), (x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5)


@case(lambda: [r(3000, 40)], persistent=1, rows=4, warps=2, evict=False, stream=True, fusion="rows")
def persistent_rows(x):
    return torch.softmax(x, -1), x.sum(-1).exp().mean()


@case(lambda: [r(33, 70), r(70)], pointwise="flat", block=64)
def flat(x, b):
    return (x + b).sigmoid(), x.t() * 2
