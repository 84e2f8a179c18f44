"""Thirty problems for ``ordinary.py``: KernelBench files, made of a constructor, a forward pass and inputs.

About half of them take less than half a millisecond in eager on two cores.
"""

import textwrap

_FILE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{make}

    def forward(self, {names}):
{forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def _problem(inputs: str, forward: str, make: str = "pass") -> str:
    """A file; ``inputs`` holds ``name = expression`` separated by semicolons."""
    pairs = [part.split(" = ", 1) for part in inputs.split("; ")]
    return _FILE.format(
        make=textwrap.indent(make, " " * 8),
        names=", ".join(name for name, _ in pairs),
        forward=textwrap.indent(forward, " " * 8),
        inputs=", ".join(text for _, text in pairs),
    )


PROBLEMS = {
    "gru": _problem(
        "x = torch.randn(16, 32, 64)", "return self.inner(x)[0]", "self.inner = nn.GRU(64, 64, batch_first=True)"
    ),
    "lstm_cell": _problem(
        "x = torch.randn(64, 128); h = torch.randn(64, 128); c = torch.randn(64, 128)",
        "return self.inner(x, (h, c))",
        "self.inner = nn.LSTMCell(128, 128)",
    ),
    "moe_router": _problem(
        "x = torch.randn(512, 256)",
        "weights = F.softmax(self.gate(x), -1)\ntop, index = weights.topk(2, -1)\n"
        "return torch.zeros_like(weights).scatter(1, index, top / top.sum(-1, keepdim=True))",
        "self.gate = nn.Linear(256, 16)",
    ),
    "se_block": _problem(
        "x = torch.randn(4, 64, 28, 28)",
        "return x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))[:, :, None, None]",
        "self.down, self.up = nn.Linear(64, 16), nn.Linear(16, 64)",
    ),
    "residual_block": _problem(
        "x = torch.randn(4, 16, 32, 32)",
        "return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + x)",
        "self.conv1, self.conv2 = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)\n"
        "self.norm1, self.norm2 = nn.BatchNorm2d(16).eval(), nn.BatchNorm2d(16).eval()",
    ),
    "smooth_l1_loss": _problem(
        "x = torch.randn(256, 1024); y = torch.randn(256, 1024)", "return F.smooth_l1_loss(x, y)"
    ),
    "kl_loss": _problem(
        "x = torch.randn(512, 1000); y = torch.randn(512, 1000)",
        "return F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction='batchmean')",
    ),
    "adam_step": _problem(
        "p = torch.randn(1 << 19); g = torch.randn(1 << 19); m = torch.randn(1 << 19); v = torch.rand(1 << 19)",
        "m = 0.9 * m + 0.1 * g\nv = 0.999 * v + 0.001 * g * g\n"
        "return p - 1e-3 * (m / 0.9) / ((v / 0.99).sqrt() + 1e-8), m, v",
    ),
    "sgd_momentum_small": _problem(
        "p = torch.randn(1 << 15); g = torch.randn(1 << 15); m = torch.randn(1 << 15)",
        "m = 0.9 * m + g + 1e-4 * p\nreturn p - 0.1 * m, m",
    ),
    "layer_norm": _problem("x = torch.randn(1024, 1024)", "return self.inner(x)", "self.inner = nn.LayerNorm(1024)"),
    "layer_norm_residual": _problem(
        "x = torch.randn(256, 512); y = torch.randn(256, 512)",
        "return self.inner(x + F.gelu(y)) + x",
        "self.inner = nn.LayerNorm(512)",
    ),
    "rms_norm_gate": _problem(
        "x = torch.randn(128, 512); g = torch.randn(128, 512)",
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight * F.silu(g)",
        "self.weight = nn.Parameter(torch.rand(512))",
    ),
    "group_norm": _problem(
        "x = torch.randn(8, 64, 28, 28)", "return F.silu(self.inner(x))", "self.inner = nn.GroupNorm(8, 64)"
    ),
    "attention": _problem(
        "q = torch.randn(2, 4, 128, 64); k = torch.randn(2, 4, 128, 64); v = torch.randn(2, 4, 128, 64)",
        "return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v",
    ),
    "masked_softmax": _problem(
        "x = torch.randn(8, 128, 128); m = torch.rand(8, 128, 128) < 0.9",
        "return torch.softmax(x.masked_fill(~m, -1e9), -1)",
    ),
    "conv_block": _problem(
        "x = torch.randn(4, 16, 56, 56)",
        "return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)",
        "self.conv, self.norm = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32).eval()",
    ),
    "depthwise": _problem(
        "x = torch.randn(4, 64, 28, 28)",
        "return F.hardswish(self.inner(x))",
        "self.inner = nn.Conv2d(64, 64, 3, padding=1, groups=64)",
    ),
    "rotary": _problem(
        "x = torch.randn(4, 8, 128, 64); angle = torch.randn(128, 32)",
        "a, b = x.chunk(2, -1)\ncos, sin = angle.cos(), angle.sin()\n"
        "return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)",
    ),
    "topk": _problem("x = torch.randn(256, 1024)", "return torch.softmax(x, -1).topk(8, -1)"),
    "embedding_bag": _problem(
        "index = torch.randint(0, 4096, (256, 16))",
        "return F.relu(self.inner(index).sum(1))",
        "self.inner = nn.Embedding(4096, 64)",
    ),
    "average_pool": _problem("x = torch.randn(8, 32, 56, 56)", "return F.avg_pool2d(x, 3, 2, 1) * 2 + 1"),
    "cumsum": _problem("x = torch.randn(256, 1024)", "return x.cumsum(-1) * 0.5"),
    "gelu_mlp": _problem(
        "x = torch.randn(256, 256)",
        "return self.down(F.gelu(self.up(x)))",
        "self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 256)",
    ),
    "swiglu": _problem(
        "x = torch.randn(128, 256)",
        "a, b = self.inner(x).chunk(2, -1)\nreturn F.silu(a) * b",
        "self.inner = nn.Linear(256, 1024)",
    ),
    "cross_entropy": _problem(
        "x = torch.randn(1024, 2000); y = torch.randint(0, 2000, (1024,))", "return F.cross_entropy(x, y)"
    ),
    "gelu_bias_large": _problem(
        "x = torch.randn(2048, 2048)", "return F.gelu(x + self.bias)", "self.bias = nn.Parameter(torch.rand(2048))"
    ),
    "softmax_large": _problem("x = torch.randn(4096, 1024)", "return torch.softmax(x * 0.5, -1)"),
    "mean_variance": _problem("x = torch.randn(2048, 1024)", "return x.mean(-1), x.var(-1, unbiased=False)"),
    "cosine_similarity": _problem(
        "x = torch.randn(1024, 256); y = torch.randn(1024, 256)", "return F.cosine_similarity(x, y)"
    ),
    "focal_loss": _problem(
        "x = torch.randn(4096, 64); y = (torch.rand(4096, 64) < 0.1).float()",
        "loss = F.binary_cross_entropy_with_logits(x, y, reduction='none')\n"
        "p = torch.sigmoid(x)\nreturn (loss * (1 - (p * y + (1 - p) * (1 - y))) ** 2).mean()",
    ),
}
"""Problem files by name."""
