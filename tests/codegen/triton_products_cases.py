"""Products, attention and convolutions that Triton candidates are compared on with eager PyTorch.

Half precision is fp16: the interpreter multiplies bf16 matrices as if their bits were integers (Triton 3.9).
"""

import runpy
from pathlib import Path

import torch
import torch.nn.functional as F

CASES = {}
PROBLEMS = Path(__file__).parents[2] / "problems"


def case(*inputs, bound=2e-5, **config):
    """Register an operator with its inputs, the first for the capture, and the bound of its error."""

    def register(function):
        CASES[function.__name__] = (function, inputs, config, bound)
        return function

    return register


def problem(name, shape=""):
    """The reference of a problem that ships, or what makes its inputs at one of its shapes."""
    file = runpy.run_path(str(PROBLEMS / f"{name}.py"))
    if not shape:
        return file["reference"]
    return lambda: file["inputs"](torch.Generator().manual_seed(0), **file["shapes"][shape])


def r(*shape):
    return torch.randn(*shape)


def nan(*shape):
    """As a GPU writes it: all bits of the mantissa are set."""
    return torch.full(shape, 2**31 - 1, dtype=torch.int32).view(torch.float32)


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


@case(lambda: [r(20), r(30, 20), r(30)], lambda: [r(33), r(150, 33), r(150)])
def linear_of_one_row(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case(lambda: [r(1, 20), r(30, 20)])
def one_row_reduced(x, w):
    return torch.softmax(F.linear(x, w), -1)


@case(lambda: [r(50, 20), r(20, 1), r(1)])
def one_column(x, w, b):
    return torch.tanh(x @ w + b)


@case(lambda: [r(3, 40, 50), r(3, 50, 60), r(60)], lambda: [r(1, 40, 5), r(1, 5, 6), r(6)])
def batched(x, w, b):
    return torch.relu(torch.bmm(x, w) + b) * 2


@case(lambda: [h(4, 35, 20), h(4, 20, 48), h(4, 1, 48), h(4, 48, 20), h(4, 1, 20)], bound=1e-2)
def pffn(x, w1, b1, w2, b2):
    y = F.rms_norm(F.gelu(torch.bmm(x, w1) + b1), (48,))
    return F.rms_norm(torch.bmm(y, w2) + b2, (20,))


@case(lambda: [h(132, 10, 36), h(132, 10, 50)], lambda: [h(3, 9, 90), h(3, 9, 170)], bound=1e-2)
def small_chain(x, y):
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


@case(lambda: [h(140, 5, 20), h(140, 20, 33), h(140, 33, 18)], bound=1e-2, tile_n=16, tile_k=16)
def small_chain_and_more(a, b, c):
    return torch.relu(torch.bmm(torch.bmm(a + 1, b), c) * 0.1)


@case(lambda: [h(132, 10, 36), h(132, 10, 50)], bound=1e-2, chain=False)
def chain_in_two_kernels(x, y):
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


@case(lambda: [r(40, 50), r(50, 60)], lambda: [r(4, 50), r(50, 64)])
def softmax_of_product(x, w):
    return torch.softmax(x @ w, -1)


@case(lambda: [r(40, 50), r(50, 60)])
def used_twice(x, w):
    return torch.relu(x @ w), (x @ w).sum()


@case(
    lambda: [r(40, 200), r(200, 30)],
    lambda: [r(200, 40).t(), r(200, 31)],
    lambda: [r(3, 33), r(33, 5)],
    split_k=3,
    tile_k=16,
)
def split_product(x, w):
    return x @ w


@case(lambda: [r(4, 10, 210), r(30, 210), r(30)], lambda: [r(2, 7, 33), r(40, 33), r(40)], split_k=4, tile_k=16)
def split_linear(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case(lambda: [r(3, 20, 150), r(3, 150, 40)], lambda: [r(1, 70, 90), r(1, 90, 600)], split_k=2, tile_k=32)
def split_softmax(x, w):
    return torch.softmax(torch.bmm(x, w), -1)


@case(
    lambda: [r(144, 40), r(40, 310)],
    lambda: [r(5, 30).t(), r(5, 60)],
    stream_k=True,
    tile_m=16,
    tile_n=16,
    tile_k=16,
)
def stream_product(x, w):
    return x @ w


@case(lambda: [r(3, 40, 50), r(3, 50, 60), r(60)], stream_k=True, tile_m=16, tile_n=32, tile_k=16)
def stream_batches(x, w, b):
    return torch.softmax(torch.bmm(x, w) + b, -1)


@case(
    lambda: [r(3, 40, 50), r(50, 60), r(60), r(50)],
    lambda: [r(2, 7, 33), r(33, 21), r(21), r(33)],
    tile_k=16,
)
def made_operands(x, w, s, b):
    return torch.relu(torch.exp(x + b) @ (w * s) - 1)


@case(lambda: [h(3, 40, 50), h(3, 50, 40)], lambda: [h(2, 30, 20), h(2, 20, 24)], bound=5e-3, split_k=2, tile_k=16)
def made_batches(x, y):
    return torch.bmm(x.sigmoid(), y * 2) + 1, torch.softmax(torch.bmm(x, y.float().cos().half()), -1)


@case(lambda: [h(5, 1000), h(1000, 72), h(72)], lambda: [h(1, 520), h(520, 80), h(80)], bound=1e-2)
def skinny(x, w, b):
    return torch.relu(x @ w + b)


@case(problem("pffn_half", "ragged"), problem("pffn_half", "one_token"), bound=1e-2)
def pffn_half(x, w1, b1, w2, b2, gain):
    return problem("pffn_half")(x, w1, b1, w2, b2, gain)


@case(problem("optfm_half", "more_features"), problem("optfm_half", "ragged"), bound=1e-2)
def optfm_half(x, y):
    return problem("optfm_half")(x, y)


@case(problem("conv1d_half", "ragged"), problem("conv1d_half", "ragged"), bound=2e-3)
def conv1d_half(x, weight, bias):
    return problem("conv1d_half")(x, weight, bias)


@case(problem("conv1d", "two_images"), problem("conv1d", "two_images"))
def conv1d_full(x, weight, bias):
    return torch.relu(problem("conv1d")(x, weight, bias))


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


@case(lambda: [r(40, 48)], lambda: [r(7, 48)])
class Layers(torch.nn.Module):
    """Weights that are read in place, transposed."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(48, 96)
        self.down = torch.nn.Linear(96, 21, bias=False)

    @torch.no_grad()
    def forward(self, x):
        return self.down(F.gelu(self.up(x))) * 2


@case(lambda: [r(4, 30, 66), r(66, 40), r(3, 64, 20)], tile_k=16)
def views_multiplied(x, w, y):
    """Operands in place: a part of the columns, a transposed part, parts that begin between multiples of 16 bytes."""
    part = torch.bmm(x[:3, :, 2:], y)
    return part, x[1:, :, 1:65] @ y[1].cos(), w[3:, 1:].t() @ w[3:, 1:], x[0].t() @ x[1]


@case(lambda: [h(2, 20, 96)], bound=5e-3)
def heads(x):
    """Attention on heads that lie side by side in memory."""
    q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@case(lambda: [h(3, 20, 30), h(24, 20, 3), h(24)], lambda: [h(2, 20, 37), h(24, 20, 3), h(24)], bound=2e-3)
def conv1d(x, w, b):
    return F.conv1d(x, w, b, padding=1)


@case(lambda: [h(2, 20, 12, 9), h(24, 20, 3, 3)], bound=2e-3)
def conv2d(x, w):
    return torch.relu(F.conv2d(x, w, stride=2, padding=1))


@case(lambda: [h(2, 20, 12, 9), h(24, 20, 3, 3), h(24), h(2, 24, 12, 9)], bound=2e-3)
def conv_residual(x, w, b, y):
    h = F.conv2d(x, w, b, padding=1) + y
    return F.gelu(h), x * 2


@case(lambda: [r(3, 20, 11, 13), r(18, 20, 3, 2), r(18, 1, 1)], lambda: [r(1, 20, 6, 7), r(18, 20, 3, 2), r(18, 1, 1)])
def conv_full(x, w, s):
    return torch.tanh(F.conv2d(x, w, padding=2, dilation=2) * s)


@case(lambda: [r(2, 20, 30), r(24, 20, 1), r(1, 20, 30)])
def conv_twice(x, w, y):
    return F.conv1d(x, w).sigmoid() * F.conv1d(y, w)


@case(lambda: [r(3, 5, 12, 17)], lambda: [r(1, 2, 9, 8)])
def max_pool(x):
    return F.max_pool2d(torch.relu(x), 3, 2, 1) + 1, F.max_pool2d(x, (2, 3), dilation=2)


@case(lambda: [r(3, 5, 12, 17), r(5, 1, 1)], lambda: [r(1, 2, 9, 8), r(2, 1, 1)])
def pooled_channels(x, w):
    padded = F.pad(w.exp().expand(x.shape), (1, 2), value=3.0)
    return F.max_pool2d(torch.relu(x * w + 1), 3, 2, 1), padded + 1, torch.cat([x * w, w.expand(x.shape)], 3).sin()


@case(lambda: [h(3, 5, 12, 17)], lambda: [h(1, 2, 9, 8)], bound=1e-3)
def mean_pool(x):
    return F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, (2, 3), divisor_override=5)


@case(lambda: [r(3, 5, 40)], lambda: [r(1, 2, 23)], keep_shared=True)
def pools_of_lines(x):
    return F.max_pool1d(x.exp(), 4, 2), F.avg_pool1d(x, 4, 3, 2)


@case(lambda: [r(2, 3, 9, 8)], lambda: [r(1, 2, 12, 12)])
def pools_left(x):
    return F.avg_pool2d(x, 3, padding=1, count_include_pad=False), F.max_pool2d(x, 2, return_indices=True)[1], x + 1


@case(lambda: [r(3, 5, 12, 17), r(5, 1, 3, 2), r(5)], lambda: [r(1, 5, 7, 8), r(5, 1, 3, 2), r(5)])
def depthwise(x, w, b):
    h = F.conv2d(x, w, b, stride=(2, 1), padding=1, dilation=(1, 2), groups=w.shape[0])
    return torch.relu(h), F.conv2d(x, w, groups=w.shape[0])


@case(lambda: [h(3, 8, 40), h(8, 1, 4)], bound=2e-3)
def depthwise_line(x, w):
    return F.conv1d(x, w, padding=3, groups=w.shape[0]).sigmoid()


@case(lambda: [r(3, 20000), torch.tensor([0, 19999, 5])], lambda: [r(2, 20001) * 30, torch.tensor([-100, 7])], split=1)
def cross_entropy_online(x, t):
    return F.cross_entropy(x, t)


@case(lambda: [r(5, 1500)], lambda: [r(1, 700)], split=1, online=False, row="loop", block=256)
def long_rows(x):
    return torch.softmax(x, -1), x.argmax(-1), x.std(-1), (x > 5).any(-1)


@case(lambda: [r(70000)], lambda: [r(90001)])
def split_sum(x):
    return x.sum(), x / x.abs().max()


@case(lambda: [r(1500, 20)], lambda: [r(1499, 35)])
def split_columns(x):
    return x.sum(0), (x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5)


@case(lambda: [r(700, 40)], persistent=1, rows=4, warps=2, evict=False, stream=True, fusion="rows")
def persistent_rows(x):
    return torch.softmax(x, -1), x.sum(-1).exp().mean()


@case(
    lambda: [r(50, 300) * 3 + 50, r(300)],
    lambda: [r(7, 301), r(301)],
    lambda: [r(3, 5) + 100, r(5)],
    row="loop",
    block=64,
    variance="welford",
    persistent=1,
)
def welford_rows(x, w):
    return F.layer_norm(x, x.shape[-1:], w), x.std(-1)


@case(lambda: [r(50, 300) + 20], lambda: [r(9, 70)], row="loop", block=64, rows=4, variance="welford", evict=False)
def welford_tiles(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


@case(lambda: [r(200, 40) + 20], lambda: [r(99, 70)], variance="welford", split=1, block=16)
def welford_columns(x):
    return (x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5)


@case(lambda: [r(4, 6, 5, 7) * 3 + 2], lambda: [r(2, 9, 4, 3)], variance="shifted")
def shifted_batch(x):
    return F.batch_norm(x, None, None, training=True), x.var((2, 3))


@case(
    lambda: [r(50, 300), r(300)],
    lambda: [r(7, 77), r(77)],
    lambda: [r(3, 304), r(304)],
    lambda: [r(3, 305), r(305)],
    pieces="all",
)
def rows_in_powers_of_two(x, w):
    y = F.layer_norm(x, x.shape[-1:], w)
    return y, torch.softmax(y * 2, -1), (x > 3).any(-1), x.amax(-1)


@case(lambda: [r(9, 20), r(20, 300)], lambda: [r(3, 20), r(20, 100)], pieces="all", rows=4)
def product_in_powers_of_two(x, w):
    y = x @ w
    return F.gelu(y), torch.log_softmax(y, -1)


@case(lambda: [r(300, 500), r(500)], lambda: [r(7, 33), r(33)], persistent=1, stages=2)
def rows_ahead(x, w):
    return F.rms_norm(x, x.shape[-1:], w)


@case(lambda: [r(33, 70), r(70)], pointwise="flat", block=64)
def flat(x, b):
    return (x + b).sigmoid(), x.t() * 2


@case(
    lambda: [r(260, 300), r(300, 280)],
    lambda: [r(300, 270).t(), r(257, 300).t()],
    lambda: [torch.cat((r(258, 300), torch.full((1, 300), float("inf")), nan(1, 300))), r(300, 280).abs()],
    split_k=1,
)
def split_3xtf32(x, w):
    return x @ w


@case(lambda: [r(2, 140, 260), r(300, 260), r(300)], lambda: [r(1, 33, 260), r(300, 260), r(300)], split_k=1)
def split_3xtf32_linear(x, w, b):
    return F.gelu(F.linear(x, w, b))
