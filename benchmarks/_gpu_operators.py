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
    others: tuple[Callable[..., Any], ...] = ()
    """Other ways to compute the same with PyTorch, timed beside the rest under their own names."""

    def inputs(self, dtype: str, device: str, empty: bool = False) -> list[torch.Tensor]:
        """Fresh inputs; ``empty``: only the memory, for what looks at shapes alone."""
        make = torch.empty if empty else torch.randn
        tensors = [make(shape, dtype=getattr(torch, dtype), device=device) for shape in self.shapes]
        if self.classes[0]:
            tensors.append(torch.randint(0, self.classes[1], self.classes[:1], device=device))
        return tensors

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


def rmsnorm_spelled(x, w):
    """As models spell it out, and eager PyTorch computes it: operator by operator."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def softmax(x):
    return torch.softmax(x, -1)


def layernorm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b)


def cross_entropy(x, t):
    return F.cross_entropy(x, t)


def conv1d(x, w, b):
    return F.conv1d(x, w, b, padding=1)


def conv1d_as_conv2d(x, w, b):
    """The same over an image of one row: views, nothing is moved."""
    return F.conv2d(x.unsqueeze(2), w.unsqueeze(2), b, padding=(0, 1)).squeeze(2)


def conv1d_channels_last(x, w, b):
    """The same with channels last, which cuDNN prefers, and back."""
    image, filters = (t.unsqueeze(2).contiguous(memory_format=torch.channels_last) for t in (x, w))
    return F.conv2d(image, filters, b, padding=(0, 1)).squeeze(2).contiguous()


def optfm(x, y):
    return torch.bmm(x, torch.bmm(x.transpose(1, 2), y))


def pffn(x, w1, b1, w2, b2):
    h = F.rms_norm(F.gelu(torch.bmm(x, w1) + b1), (w1.shape[-1],))
    return F.rms_norm(torch.bmm(h, w2) + b2, (w2.shape[-1],))


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


def matmul(x, w):
    return x @ w


def skinny(x, w, b):
    return F.linear(x, w, b)


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


def conv2d_relu(x, w, b):
    return torch.relu(F.conv2d(x, w, b, padding=1))


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def mean_pool(x):
    return F.avg_pool2d(x, 3, 2, 1)


def groupnorm(x, w, b):
    return F.group_norm(x, 8, w, b)


_BOTH = ("bfloat16", "float32")


def _optfm(b: int, n: int, d: int, k: int) -> Operator:
    flops = 4.0 * b * n * d * k
    return Operator(f"optfm_{n}", optfm, ((b, n, d), (b, n, k)), ("bfloat16",), flops=flops, written=((b, n, k),))


def _pffn(b: int, n: int, d: int, k: int) -> Operator:
    shapes = ((b, n, d), (b, d, k), (b, 1, k), (b, k, d), (b, 1, d))
    return Operator(f"pffn_{b}_{n}_{d}", pffn, shapes, ("bfloat16",), flops=4.0 * b * n * d * k)


def _matrix(name: str, run: Callable[..., Any], m: int, k: int, n: int, dtypes: tuple[str, ...]) -> Operator:
    shapes = ((m, k), (k, n)) if run is matmul else ((m, k), (n, k), (n,))
    return Operator(name, run, shapes, dtypes, flops=2.0 * m * n * k, written=((m, n),))


OPERATORS = (
    Operator("rmsnorm", rmsnorm, ((8192, 8192), (8192,)), _BOTH, written=((8192, 8192),)),
    Operator("rmsnorm_spelled", rmsnorm_spelled, ((8192, 8192), (8192,)), _BOTH, written=((8192, 8192),)),
    Operator("softmax", softmax, ((8192, 8192),), _BOTH),
    Operator("layernorm", layernorm, ((8192, 4096), (4096,), (4096,)), _BOTH),
    Operator("cross_entropy", cross_entropy, ((8192, 32768),), _BOTH, classes=(8192, 32768), written=((),)),
    Operator(
        "conv1d",
        conv1d,
        ((2048, 96, 200), (96, 96, 3), (96,)),
        ("float16",),
        flops=2.0 * 2048 * 200 * 96 * 96 * 3,
        others=(conv1d_as_conv2d, conv1d_channels_last),
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
    # Longer than a program's registers: Welford's form against two passes.
    Operator("longnorm", layernorm, ((1024, 65536), (65536,), (65536,)), _BOTH, written=((1024, 65536),)),
    Operator("groupnorm", groupnorm, ((112, 64, 128, 128), (64,), (64,)), _BOTH, written=((112, 64, 128, 128),)),
    # One wave of tiles is far from full: parts of the sum.
    _matrix("skinny", skinny, 16, 4096, 4096, ("bfloat16",)),
    _matrix("deep", matmul, 256, 65536, 256, ("float32",)),
    _matrix("deep_gelu", linear_gelu, 512, 16384, 1024, ("bfloat16",)),
    Operator(
        "conv2d_relu",
        conv2d_relu,
        ((64, 128, 56, 56), (128, 128, 3, 3), (128,)),
        ("float16", "float32"),
        flops=2.0 * 64 * 56 * 56 * 128 * 128 * 9,
    ),
    Operator("max_pool", max_pool, ((64, 64, 224, 224),), _BOTH, written=((64, 64, 112, 112),)),
    Operator("mean_pool", mean_pool, ((64, 64, 224, 224),), _BOTH, written=((64, 64, 112, 112),)),
)
