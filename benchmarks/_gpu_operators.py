"""The operators of the GPU benchmark: the issue's figures and a few more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Operator:
    """One line of the table."""

    name: str
    run: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    """Of the floating inputs."""
    dtypes: tuple[str, ...]
    classes: tuple[int, int] = (0, 0)
    """A last input of labels: how many, below what."""
    flops: float = 0.0
    """Multiply-adds as two, where arithmetic may be the floor."""
    written: tuple[tuple[int, ...], ...] | None = None
    """Shapes of the outputs; None: like the first input."""

    def inputs(self, dtype: str, device: str, empty: bool = False) -> list[torch.Tensor]:
        """Fresh inputs; ``empty``: only the memory, for what looks at shapes alone."""
        make = torch.empty if empty else torch.randn
        found = [make(shape, dtype=getattr(torch, dtype), device=device) for shape in self.shapes]
        if self.classes[0]:
            found.append(torch.randint(0, self.classes[1], self.classes[:1], device=device))
        return found

    def bytes(self, dtype: str) -> int:
        """Fewest bytes that must move: every input read once, every output written once."""
        size = torch.empty((), dtype=getattr(torch, dtype)).element_size()
        written = self.shapes[:1] if self.written is None else self.written
        return size * sum(map(_count, (*self.shapes, *written))) + 8 * self.classes[0]


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def rmsnorm(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def softmax(x):
    return torch.softmax(x, -1)


def layernorm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b)


def cross_entropy(x, t):
    return F.cross_entropy(x, t)


def conv1d(x, w, b):
    return F.conv1d(x, w, b, padding=1)


def optfm(x, y):
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


def pffn(x, w1, b1, w2, b2):
    h = F.rms_norm(F.gelu(torch.bmm(x, w1) + b1), (w1.shape[-1],))
    return F.rms_norm(torch.bmm(h, w2) + b2, (w2.shape[-1],))


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


def matmul(x, w):
    return x @ w


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def spelled_attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def column_sum(x):
    return x.sum(0)


def whole_mean(x):
    return (x * x).mean()


def gelu_bias(x, b):
    return F.gelu(x + b)


def cumsum(x):
    return torch.cumsum(x, -1)


_BOTH = ("bfloat16", "float32")


def _optfm(b: int, n: int, d: int, k: int) -> Operator:
    flops = 4.0 * b * n * d * k
    return Operator(f"optfm_{n}", optfm, ((b, n, d), (b, n, k)), ("bfloat16",), flops=flops, written=((b, n, k),))


def _pffn(b: int, n: int, d: int, k: int) -> Operator:
    shapes = ((b, n, d), (b, d, k), (b, 1, k), (b, k, d), (b, 1, d))
    return Operator(f"pffn_{b}_{n}_{d}", pffn, shapes, ("bfloat16",), flops=4.0 * b * n * d * k)


OPERATORS = (
    Operator("rmsnorm", rmsnorm, ((8192, 8192), (8192,)), _BOTH, written=((8192, 8192),)),
    Operator("softmax", softmax, ((8192, 8192),), _BOTH),
    Operator("layernorm", layernorm, ((8192, 4096), (4096,), (4096,)), _BOTH),
    Operator("cross_entropy", cross_entropy, ((8192, 32768),), _BOTH, classes=(8192, 32768), written=((),)),
    Operator(
        "conv1d",
        conv1d,
        ((2048, 96, 200), (96, 96, 3), (96,)),
        ("float16",),
        flops=2.0 * 2048 * 200 * 96 * 96 * 3,
    ),
    _optfm(1024, 24, 224, 2198),
    _optfm(1024, 40, 224, 448),
    _optfm(1024, 48, 224, 448),
    _pffn(1024, 200, 256, 160),
    _pffn(1024, 200, 192, 96),
    _pffn(1024, 150, 96, 192),
    Operator(
        "linear_gelu",
        linear_gelu,
        ((8192, 4096), (4096, 4096), (4096,)),
        ("bfloat16",),
        flops=2.0 * 8192 * 4096 * 4096,
        written=((8192, 4096),),
    ),
    Operator(
        "matmul", matmul, ((4096, 4096), (4096, 4096)), ("float32",), flops=2.0 * 4096**3, written=((4096, 4096),)
    ),
    Operator("attention", attention, ((4, 16, 4096, 128),) * 3, ("bfloat16",), flops=2.0 * 4 * 16 * 4096**2 * 128),
    Operator(
        "spelled_attention", spelled_attention, ((8, 16, 1024, 64),) * 3, ("bfloat16",), flops=4.0 * 128 * 1024**2 * 64
    ),
    Operator("column_sum", column_sum, ((16384, 8192),), _BOTH, written=((8192,),)),
    Operator("whole_mean", whole_mean, ((16384, 8192),), _BOTH, written=((),)),
    Operator("gelu_bias", gelu_bias, ((16384, 8192), (8192,)), ("bfloat16",), written=((16384, 8192),)),
    Operator("cumsum", cumsum, ((8192, 8192),), ("float32",)),
)
