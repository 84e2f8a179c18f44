"""Operators that generated candidates are compared on with eager PyTorch, with the inputs and tunables for it.

Every operator is captured at its first inputs only; the one candidate must be right for all of them.
"""

import math
from math import sqrt

import torch
import torch.nn.functional as F

CASES = {}


def case(*inputs, bound=None, **config):
    """Register an operator with the functions that make its inputs, the first for the capture."""

    def register(function):
        CASES[function.__name__] = (function, inputs, config, bound)
        return function

    return register


def randn(*shape, **kwargs):
    return torch.randn(*shape, **kwargs)


def ints(high, *shape, low=0, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


def rows(*more):
    """Row operators: main, ragged, one row, one column, not contiguous, empty."""
    return [
        lambda: [randn(64, 300), *(m(300) for m in more)],
        lambda: [randn(37, 1001), *(m(1001) for m in more)],
        lambda: [randn(2, 7), *(m(7) for m in more)],
        lambda: [randn(129, 64).t(), *(m(129) for m in more)],
        lambda: [randn(5, 80)[:, ::2], *(m(40) for m in more)],
        lambda: [randn(0, 33), *(m(33) for m in more)],
    ]


def vector(n):
    return randn(n)


@case(*rows(vector))
def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


@case(*rows(vector, vector))
def layernorm_and_input(x, w, b):
    h = x * 2 + 1
    return F.layer_norm(h, (h.shape[-1],), w, b), h


@case(*rows(), row_buffer="all", variance="shifted", fusion="split", lanes=16, stream=True)
def layernorm_split(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()


@case(*rows(), row_buffer="none", vector_bits=512, unroll=True)
def softmax(x):
    return torch.softmax(x, -1)


@case(lambda: [torch.linspace(0, -95, 49).repeat(8, 1)])
def gates(x):
    return torch.log(torch.softmax(x, -1))


@case(*rows(), lambda: [torch.randn(3, 5000) * 30], lambda: [torch.full((2, 5), float("-inf"))], online=True)
def softmax_online(x):
    return torch.softmax(x, -1), torch.log_softmax(x, -1)


@case(*rows(), math="fast", bound=1e-4)
def log_softmax_fast(x):
    return torch.log_softmax(x, -1), torch.logsumexp(x, -1)


@case(lambda: [randn(40, 300), ints(300, 40)], lambda: [randn(3, 7), ints(7, 3)], double_sums=True, prefetch=512)
def cross_entropy(x, t):
    return F.cross_entropy(x, t)


@case(lambda: [randn(40, 300), ints(300, 40)], lambda: [randn(3, 7), ints(7, 3)], fusion="rows")
def cross_entropy_rows(x, t):
    return F.cross_entropy(x, t, reduction="sum"), F.nll_loss(x, t, reduction="none")


@case(lambda: [randn(2, 3, 5, 64), randn(5, 64), randn(5, 64)], lambda: [randn(1, 4, 2, 6), randn(2, 6), randn(2, 6)])
def rotary(q, cos, sin):
    a, b = q.chunk(2, -1)
    return q * cos + torch.cat((-b, a), -1) * sin


@case(lambda: [randn(30, 128)], lambda: [randn(3, 6)], lambda: [randn(6, 128)[:, ::2]], stream=True)
def swiglu(x):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


@case(
    lambda: [randn(30, 40), randn(40), randn(30, 1), randn(())], lambda: [randn(3, 1), randn(1), randn(3, 1), randn(())]
)
def broadcasts(x, row, column, scalar):
    return (x + row) * column - scalar / 3, F.gelu(x) + F.gelu(x, approximate="tanh"), x.t() + 1


@case(lambda: [randn(4, 6, 8)], lambda: [randn(2, 3, 5)])
def views(x):
    y = x.permute(2, 0, 1).reshape(x.shape[2], -1)
    z = x.flatten(0, 1).unflatten(0, (x.shape[0], x.shape[1])).transpose(0, 1).flip(2)
    return y * 2, z + 1, x[1:, :, ::2] * 3, x[:, -1].exp(), torch.stack([x, x * 2], 1)[:, 1] - 1


@case(lambda: [randn(6, 10), randn(4, 10)], lambda: [randn(1, 3), randn(5, 3)], stream=True)
def concatenations(x, y):
    a = torch.cat((x, y * 2, x + 1), 0)
    b = torch.cat((x.sum(0, keepdim=True), y), 0).relu()
    return a * a, b, F.pad(x, (1, 2, 0, 3), value=7.0) + 1


@case(lambda: [randn(6, 8, 5)], lambda: [randn(3, 8, 2)])
def dense_concatenations(x):
    for layer in range(9):
        x = torch.cat([x, torch.tanh(x[:, layer : layer + 3])], 1)
        x = torch.cat([x[:, :1] * 2, x], 1)
    return x, torch.relu(x).sum(1)


@case(
    lambda: [randn(20, 8), ints(20, 5, 7), ints(8, 6, low=-8), ints(8, 20, 3)],
    lambda: [randn(3, 4), ints(3, 1, 2), ints(4, 5, low=-4), ints(4, 3, 2)],
)
def gathers(table, rows_, columns, places):
    return (
        F.embedding(rows_, table) * 2,
        table[:, columns] + 1,
        torch.gather(table, 1, places).exp(),
        table[rows_[0]][:, 1:].abs(),
        torch.index_select(table, 1, columns.abs() % table.shape[1]) - 1,
        (table * 2)[rows_[:, 0], columns[: rows_.shape[0]]] + 1,
    )


@case(
    lambda: [ints(1000, 500), torch.arange(0, 1000, 3)],
    lambda: [ints(1000, 7), torch.tensor([500])],
    lambda: [ints(1000, 0), torch.arange(5)],
)
def mapid(x, table):
    i = torch.bucketize(x, table).clamp(max=table.numel() - 1)
    return torch.where(table[i] == x, i + 1, 0), torch.bucketize(x, table, right=True, out_int32=True)


@case(
    lambda: [randn(5, 40), torch.sort(randn(5, 17)).values],
    lambda: [torch.tensor([[float("nan"), 1.0, -1.0]]), torch.tensor([[0.0, 1.0]])],
    stream=True,
)
def searches(x, borders):
    return torch.searchsorted(borders, x, right=True), torch.searchsorted(borders, x)


@case(
    lambda: [ints(9, 30, low=-9), ints(5, 30, low=1), ints(100, 30, dtype=torch.int32)],
    lambda: [ints(9, 1, low=-9), ints(5, 1, low=1), ints(100, 1, dtype=torch.int32)],
)
def integers(a, b, c):
    return (
        a // b,
        a % b,
        torch.div(a, b, rounding_mode="trunc"),
        torch.fmod(a, b),
        a / b,
        a * c + 1,
        (a > b) & (c < 50),
        ~(a > 0),
        a & b,
        a | 3,
        a ^ b,
        c << 2,
        a.abs(),
        -a,
        a.clamp(-2, 3),
        torch.where(a > 0, a, c),
        a.sum(),
        (a > 0).sum(),
        c.sum(),
        a.float().mean(),
        (a > 0).any(),
        (a > -20).all(),
        a.max(),
        a.sign(),
    )


@case(
    lambda: [randn(40, 50)], lambda: [randn(2, 3)], lambda: [torch.tensor([[float("nan"), 1.0], [2.0, float("inf")]])]
)
def extremes(x):
    return (
        x.amax(-1),
        x.amin(0),
        x.argmax(-1),
        x.argmin(0),
        x.clamp(-0.5, 0.5),
        x.max(),
        torch.maximum(x, -x),
        x.relu(),
        x.amax((0, 1)),
    )


@case(lambda: [randn(2, 3, 4, 5)], lambda: [randn(1, 2, 3, 7)], lambda: [randn(3, 2, 300, 1)])
def reductions(x):
    return (
        x.sum((0, 2, 3)),
        x.mean(1),
        x.sum(),
        x.mean((1, 2), keepdim=True),
        x.var(0),
        x.std((1, 2, 3)),
        torch.var_mean(x, -1),
        x.prod(2),
        (x - x.mean((0, 2, 3), keepdim=True)) * torch.rsqrt(x.var((0, 2, 3), keepdim=True, correction=0) + 1e-5),
        F.softmax(x, 1),
        torch.linalg.vector_norm(x, dim=-1),
        (x - 1).pow(2).mean(),
        x / x.sum(),
        x.exp().sum(1).log().mean(),
    )


@case(
    lambda: [randn(40, 300).bfloat16(), randn(300).bfloat16()],
    lambda: [randn(3, 7).bfloat16(), randn(7).bfloat16()],
    bound=2e-2,
    stream=True,
)
def half_precision(x, w):
    return F.rms_norm(x, (x.shape[-1],), w), torch.softmax(x, -1), (x * 2).half() + 1, x.sum(-1), x.float() * w


@case(lambda: [randn(40, 30, dtype=torch.float64)], lambda: [randn(3, 7, dtype=torch.float64)], stream=True)
def double_precision(x):
    return torch.softmax(x, -1), x.tanh().mean(), F.layer_norm(x, (x.shape[-1],))


@case(lambda: [randn(33, 20), randn(20, 40), randn(40)], lambda: [randn(3, 5), randn(5, 7), randn(7)])
def matmul_epilogue(x, w, b):
    h = F.gelu(torch.addmm(b, x, w))
    return h, F.softmax(h @ w.t(), -1)


@case(
    lambda: [randn(2, 3, 10, 12), randn(4, 3, 3, 3), randn(4)], lambda: [randn(1, 3, 5, 4), randn(4, 3, 3, 3), randn(4)]
)
def convolution_epilogue(x, w, b):
    return F.relu(F.conv2d(x, w, b, padding=1)) * 2 + 1


def _mask_inputs(n, m):
    return [randn(n), randn(n, m), ints(2, n) > 0]


@case(
    lambda: _mask_inputs(1000, 3),
    lambda: _mask_inputs(1, 5),
    lambda: [randn(9), randn(9, 2), torch.zeros(9, dtype=torch.bool)],
)
def compactions(x, y, mask):
    selected = x[x > 0]
    return selected, selected * 2, y[mask] + 1, y[y > 0], (x * 2)[mask & (x < 1)].sum()


@case(lambda: [randn(7, 100), ints(5, 40)], lambda: [randn(1, 3), ints(5, 1)])
def running_sums(x, n):
    return torch.cumsum(x, 1), torch.cumsum(n, 0) * 2, torch.cumsum(x.relu(), -1).sum(-1)


def _ragged(outer_count, most_events, most_values):
    outer = ints(most_events, outer_count)
    inner = ints(most_values, int(outer.sum()))
    return [outer, inner, randn(int(inner.sum()))]


@case(lambda: _ragged(30, 9, 7), lambda: _ragged(1, 4, 3), lambda: _ragged(200, 30, 2))
def truncate_by_search(outer, inner, values):
    offsets = torch.cumsum(outer, 0)
    event = torch.arange(inner.numel())
    row = torch.bucketize(event, offsets, right=True)
    keep = (event - (offsets - outer)[row]) < 5
    keep_value = torch.repeat_interleave(keep, inner)
    return outer.clamp(max=5), inner[keep], values[keep_value]


@case(lambda: _ragged(30, 9, 7), lambda: _ragged(1, 4, 3), lambda: _ragged(200, 30, 2))
def truncate_by_repeat(outer, inner, values):
    end = torch.repeat_interleave(torch.cumsum(outer, 0), outer)
    keep = end - torch.arange(inner.numel()) <= 4
    return inner[keep], values[torch.repeat_interleave(keep, inner)] * 2, torch.repeat_interleave(outer) + 1


@case(lambda: [randn(6, 8)], lambda: [randn(1, 3)])
def mutations(x):
    y = x.clone()
    y.add_(1)
    y[0] = 3
    y[:, 1:].mul_(2)
    return y, x.tril(), x.triu(1), torch.roll(x, 1, 0), x.new_zeros(x.shape) + x.shape[0]


@case(lambda: [randn(30, 40)], lambda: [randn(3, 4)], keep_shared=True, threads=1, dynamic=True, huge_pages=False)
def shared_values(x):
    y = torch.tanh(x) + torch.sin(x)
    return y.sum(0), y.sum(1), y * 2


@case(lambda: [randn(70000)], lambda: [randn(3)], serial_below=1, block=2048)
def long_vectors(x):
    return x.sigmoid() * 2, x.sum(), (x * x).mean(), x.abs().max()


@case(lambda: [randn(16, 32), 3, 0.5], lambda: [randn(3, 4), 7, 0.5])
def numbers(x, n, scale):
    return x * n + scale, x[:n] / x.shape[0], x * x.shape[1] ** -0.5


@case(lambda: [randn(9, 30)], lambda: [randn(4, 3)])
def sums_before(x):
    return F.pad(torch.cumsum(x[:, :-1], 1), (1, 0)) + torch.cumprod(x[1:, 2:], 1).sum() * 0.1


@case(lambda: [randn(2, 3, 8, 9)], lambda: [randn(3, 2, 5, 7)])
def padded_otherwise(x):
    pads = (1, 2, 3, 1)
    around = [F.pad(x, pads, mode=mode) * 2 for mode in ("circular", "reflect", "replicate")]
    return *around, F.pad(x[0], (-1, 2), mode="circular").sum(-1)


@case(lambda: [randn(2, 3, 8, 9)], lambda: [randn(1, 4, 9, 7)], lambda: [randn(2, 1, 11, 3)])
def resampled(x):
    modes = [("nearest", None), ("nearest-exact", None), ("bilinear", False), ("bilinear", True)]
    outputs = [F.interpolate(x, scale_factor=1.5, mode=mode, align_corners=at) for mode, at in modes]
    return F.silu(sum(outputs)), F.interpolate(x, scale_factor=(0.5, 2.3), mode="bilinear") * 2


@case(lambda: [randn(2, 3, 8, 9)], lambda: [randn(1, 4, 9, 7)])
def resampled_smoothly(x):
    return F.relu(F.interpolate(x, scale_factor=2, mode="bicubic")), x * 2


@case(lambda: [randn(2, 5, 16), randn(2, 7, 16)], lambda: [randn(3, 4, 9), randn(3, 6, 9)])
def scaled_by_sizes(q, k):
    scores = torch.softmax(torch.einsum("bid,bjd->bij", q, k) / math.sqrt(q.shape[-1]), -1)
    return scores * sqrt(k.size(1)), scores.sum(1) / torch.tensor(q.shape[1])


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 32)
        self.norm = torch.nn.GroupNorm(4, 32)
        self.batch = torch.nn.BatchNorm1d(32)
        self.scale = torch.nn.Parameter(torch.randn(32))
        self.register_buffer("shift", torch.randn(32))

    def forward(self, x):
        return self.batch(self.norm(F.silu(self.linear(x)) + self.shift) * self.scale) + torch.tensor([1.0, 2.0]).sum()


CASES["module"] = (Block, [lambda: [randn(20, 16)], lambda: [randn(3, 16)]], {}, None)


@case(
    lambda: [randn(20, 30).bfloat16(), randn(20, 30).double()],
    lambda: [torch.tensor([[0.0, -0.0, torch.inf, -torch.inf]]).bfloat16(), randn(1, 4).double()],
)
def signs(x, y):
    return torch.signbit(x), torch.signbit(y)


@case(lambda: [torch.tensor(0.5), ints(1, 1)])
def number_selected(x, index):
    return torch.index_select(x, 0, index) * 2


@case(lambda: [randn(6, 8), torch.tensor([2])], lambda: [randn(9, 5), torch.tensor([4])])
def split_where_data_says(x, at):
    first, second = torch.tensor_split(x.exp(), at)
    return first.sum(0), second.sum(0)
