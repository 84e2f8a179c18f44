"""Twenty operators with a right kernel and one that is a little wrong each, for ``agreement.py``.

The right one is what the generator writes for the config. The wrong one is PyTorch code with one mistake that real
kernels have; most are wrong by little more than the judge allows.
"""

from dataclasses import dataclass, field

from kernelswarm.schemas import Config

HEAD = """
import math

import torch
import torch.nn.functional as F

shapes = {shapes}


def inputs(generator, {sizes}):
    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator)

    return [{drawn}]


def reference({arguments}):
{body}
"""

NEAR_MISS = """
import math

import torch
import torch.nn.functional as F


def polynomial_exp(x, coefficients):
    x = x.clamp(-100.0, 100.0)
    power = (x * 1.4426950408889634).round()
    rest = ((x - power * 0.693359375) + power * 2.12194440e-4)
    value = torch.zeros_like(x)
    for coefficient in coefficients:
        value = value * rest + coefficient
    return torch.ldexp(value, power.to(torch.int32))


DEGREE_4 = (0.041283, 0.16748, 0.50003, 1.0, 1.0)
DEGREE_5 = (0.0083699, 0.0418836, 0.16666584, 0.49999184, 1.0, 1.0)


def digits(x, count):
    # Round to so many binary digits.
    fraction, exponent = torch.frexp(x.double())
    return torch.ldexp(torch.round(fraction * 2.0**count), exponent - count).to(x.dtype)


def approximate_rsqrt(x, first_digits, steps):
    y = digits(x.rsqrt(), first_digits)
    for _ in range(steps):
        y = y * (1.5 - 0.5 * x * y * y)
    return y


def kernel({arguments}):
{body}
"""


@dataclass(frozen=True)
class Operator:
    """A problem with a config for the right kernel and the body of the wrong one."""

    name: str
    arguments: str
    drawn: str
    body: str
    near_miss: str
    mistake: str
    config: Config = field(default_factory=dict)
    shapes: str = '{"main": dict(rows=64, cols=257), "ragged": dict(rows=23, cols=96)}'
    sizes: str = "rows, cols"

    @property
    def problem(self) -> str:
        """The text of its problem file."""
        return HEAD.format(
            shapes=self.shapes, sizes=self.sizes, drawn=self.drawn, arguments=self.arguments, body=_indented(self.body)
        )

    @property
    def wrong_kernel(self) -> str:
        """The text of the candidate that is a little wrong."""
        return NEAR_MISS.format(arguments=self.arguments, body=_indented(self.near_miss))


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.splitlines())


OPERATORS = (
    Operator(
        "softmax",
        "x",
        "2 * normal(rows, cols)",
        "return torch.softmax(x, -1)",
        "e = polynomial_exp(x - x.amax(-1, keepdim=True), DEGREE_4)\nreturn e / e.sum(-1, keepdim=True)",
        "an exponential of degree four",
        {"math": "fast", "online": True},
    ),
    Operator(
        "log_softmax",
        "x",
        "3 * normal(rows, cols)",
        "return torch.log_softmax(x, -1)",
        "e = x - x.amax(-1, keepdim=True)\n"
        "return e - digits(polynomial_exp(e, DEGREE_5).sum(-1, keepdim=True), 15).log()",
        "a sum of 15 binary digits",
        {"lanes": 128},
    ),
    Operator(
        "layer_norm",
        "x, weight, bias",
        "normal(rows, cols), 1 + 0.2 * normal(cols), normal(cols)",
        "return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)",
        "centred = x - x.mean(-1, keepdim=True)\n"
        "return centred * centred.square().mean(-1, keepdim=True).rsqrt() * weight + bias",
        "no epsilon",
        {"lanes": 64},
    ),
    Operator(
        "rms_norm",
        "x, weight",
        "normal(rows, cols), 1 + 0.2 * normal(cols)",
        "return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
        "return weight * (x * approximate_rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6, 9, 1))",
        "one Newton step from nine digits",
        {"lanes": 16},
    ),
    Operator(
        "group_norm",
        "x, weight, bias",
        "normal(rows, 12, cols), 1 + 0.2 * normal(12), normal(12)",
        "return F.silu(F.group_norm(x, 4, weight, bias))",
        "groups = x.unflatten(1, (4, 3))\n"
        "mean = groups.mean((2, 3), keepdim=True)\n"
        "square = groups.square().mean((2, 3), keepdim=True)\n"
        "y = ((groups - mean) * (square - mean * mean + 1e-5).rsqrt()).flatten(1, 2)\n"
        "return F.silu(y * weight[:, None] + bias[:, None])",
        "the variance from sums of squares",
        shapes='{"main": dict(rows=9, cols=64), "ragged": dict(rows=5, cols=33)}',
    ),
    Operator(
        "batch_norm",
        "x, mean, variance, weight, bias",
        "normal(rows, 8, cols), normal(8), 0.5 + uniform(8), 1 + 0.2 * normal(8), normal(8)",
        "return F.relu(F.batch_norm(x, mean, variance, weight, bias, False))",
        "factor = weight * (variance + 1.4e-5).rsqrt()\n"
        "return F.relu((x - mean[:, None]) * factor[:, None] + bias[:, None])",
        "another epsilon",
        shapes='{"main": dict(rows=16, cols=64), "ragged": dict(rows=5, cols=33)}',
    ),
    Operator(
        "gelu",
        "x, bias",
        "normal(rows, cols), normal(cols)",
        "return F.gelu(x + bias)",
        "y = x + bias\n"
        "t = 1 / (1 + 0.3275911 * (y.abs() * 0.707))\n"
        "tail = 1.061405429 * t - 1.453152027\n"
        "for factor in (1.421413741, -0.284496736, 0.254829592):\n"
        "    tail = tail * t + factor\n"
        "tail = tail * t * (-0.5 * y * y).exp()\n"
        "return 0.5 * y * (1 + torch.where(y < 0, tail - 1, 1 - tail))",
        "an error function of seven digits",
        {"math": "fast"},
    ),
    Operator(
        "swiglu",
        "gate, up",
        "normal(rows, cols), normal(rows, cols)",
        "return F.silu(gate) * up",
        "return gate / (1 + polynomial_exp(-gate, DEGREE_4)) * up",
        "an exponential of degree four",
        {"math": "fast"},
    ),
    Operator(
        "mish",
        "x",
        "2 * normal(rows, cols)",
        "return F.mish(x)",
        "return x * torch.tanh(torch.log(1 + digits(torch.exp(x.clamp(max=30)), 15)))",
        "an exponential of 15 binary digits",
        {"math": "libm"},
    ),
    Operator(
        "cross_entropy",
        "logits, target",
        "2 * normal(rows, cols), torch.randint(0, cols, (rows,), generator=generator)",
        "return F.cross_entropy(logits, target)",
        "e = logits - logits.amax(-1, keepdim=True)\n"
        "sums = polynomial_exp(e, DEGREE_4).sum(-1)\n"
        "return (digits(sums, 8).log() - e.gather(1, target[:, None])[:, 0]).mean()",
        "sums of eight binary digits",
    ),
    Operator(
        "standard_deviation",
        "x",
        "normal(rows, cols) + 3",
        "return torch.cat([x.var(-1), x.std(-1)])",
        "x = x - x[:, :1]\n"
        "v = (x.square().mean(-1) - x.mean(-1).square()) * (x.shape[-1] / (x.shape[-1] - 1))\n"
        "return torch.cat([v, v.clamp(min=0).sqrt()])",
        "distances from the first number",
        {"lanes": 128},
        '{"main": dict(rows=64, cols=257), "ragged": dict(rows=23, cols=1000)}',
    ),
    Operator(
        "cosine_similarity",
        "x, y",
        "normal(rows, cols), normal(rows, cols)",
        "return F.cosine_similarity(x, y, dim=-1)",
        "x, y = digits(x, 19), digits(y, 19)\n"
        "return (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1)).clamp(min=1e-8)",
        "inputs of 19 binary digits",
    ),
    Operator(
        "normalize",
        "x",
        "normal(rows, cols)",
        "return F.normalize(x, dim=-1)",
        "return x * approximate_rsqrt(x.square().sum(-1, keepdim=True).clamp(min=1e-24), 9, 1)",
        "one Newton step from nine digits",
        {"double_sums": True},
    ),
    Operator(
        "logsumexp",
        "x",
        "normal(rows, cols)",
        "return torch.logsumexp(x, -1)",
        "most = x.amax(-1, keepdim=True)\n"
        "most = most.where(most.isfinite(), 0.0)\n"
        "return most[:, 0] + digits(polynomial_exp(x - most, DEGREE_4).sum(-1), 15).log()",
        "a sum of 15 binary digits",
        {"math": "fast", "fusion": "split"},
    ),
    Operator(
        "cumsum",
        "x",
        "normal(rows, cols)",
        "return torch.cumsum(x, -1)",
        "return torch.cumsum(digits(x, 18), -1)",
        "inputs of 18 binary digits",
    ),
    Operator(
        "attention",
        "q, k, v",
        "normal(2, rows, 32), normal(2, cols, 32), normal(2, cols, 32)",
        "return torch.softmax(q @ k.transpose(1, 2) / math.sqrt(32), -1) @ v",
        "scores = q @ k.transpose(1, 2) / 5.65684\n"
        "e = polynomial_exp(scores - scores.amax(-1, keepdim=True), DEGREE_5)\n"
        "return e @ v / e.sum(-1, keepdim=True)",
        "a root of six digits",
        shapes='{"main": dict(rows=48, cols=40), "ragged": dict(rows=23, cols=31)}',
    ),
    Operator(
        "linear_gelu",
        "x, weight, bias",
        "normal(rows, cols), normal(48, cols) / 16, normal(48)",
        'return F.gelu(F.linear(x, weight, bias), approximate="tanh")',
        'return F.gelu(F.linear(digits(x, 17), weight, bias), approximate="tanh")',
        "inputs of 17 binary digits",
        {"math": "fast"},
    ),
    Operator(
        "adamw",
        "parameter, gradient, first, second",
        "normal(rows, cols), normal(rows, cols), 0.3 * normal(rows, cols), 0.1 + uniform(rows, cols)",
        "first = 0.9 * first + 0.1 * gradient\n"
        "second = 0.95 * second + 0.05 * gradient * gradient\n"
        "step = first / (1 - 0.9**10) / (torch.sqrt(second / (1 - 0.95**10)) + 1e-8)\n"
        "return parameter * (1 - 1e-3) - 0.01 * step, first, second",
        "first = 0.9 * first + 0.1 * gradient\n"
        "second = 0.95 * second + 0.05 * gradient * gradient\n"
        "step = first / (1 - 0.9**10) * digits((second / (1 - 0.95**10)).rsqrt(), 11)\n"
        "return parameter * (1 - 1e-3) - 0.01 * step, first, second",
        "a reciprocal root of eleven binary digits",
        {"block": 2048},
    ),
    Operator(
        "kl_divergence",
        "x, y",
        "normal(rows, cols), normal(rows, cols)",
        'return F.kl_div(torch.log_softmax(x, -1), torch.softmax(y, -1), reduction="none").sum(-1)',
        "lp, lq = torch.log_softmax(x, -1), torch.log_softmax(y, -1)\n"
        "return (digits(lq.exp(), 16) * (lq - lp)).sum(-1)",
        "an exponential of 16 binary digits",
    ),
    Operator(
        "half_rms_norm",
        "x, weight",
        "normal(rows, cols).half(), (1 + 0.2 * normal(cols)).half()",
        "y = x.float()\n"
        "y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)\n"
        "return (y * weight.float()).half()",
        "y = x.float()\n"
        "y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)\n"
        "return y.half() * weight.half() * digits(torch.tensor(1.0017), 12).half()",
        "a factor beside 1",
    ),
)
"""The right kernels and near misses whose verdicts are counted."""
