"""Modules and functions that nobody here made, and some that leave something behind, with makers of their inputs.

Each is captured at its first inputs; the one candidate must be right for all of them, called several times in a row.
"""

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class SqueezeExcite(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, width), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x.mean((2, 3)))[:, :, None, None]


class Depthwise(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1, groups=width), nn.Conv2d(width, width, 1)])
        self.norms = nn.ModuleDict({"a-b": nn.BatchNorm2d(width), "for": nn.BatchNorm2d(width)})

    def forward(self, x):
        x = F.hardswish(self.norms["a-b"](self.layers[0](x)))
        return F.hardswish(self.norms["for"](self.layers[1](x)))


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 8)

    def forward(self, x):
        shares = torch.softmax(self.gate(x), -1)
        values, places = torch.topk(shares, 2, -1)
        return values / values.sum(-1, keepdim=True), places, shares.mean(0)


class Tied(nn.Module):
    """One tensor under two names, a parameter that nothing uses, a buffer that no state_dict has."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.out = nn.Linear(8, 20, bias=False)
        self.out.weight = self.embedding.weight
        self.unused = nn.Parameter(torch.randn(3))
        self.register_buffer("mask", torch.rand(8), persistent=False)

    def forward(self, places):
        return torch.softmax(self.out(F.gelu(self.embedding(places) * self.mask)), -1)


class Average(nn.Module):
    """An exponential moving average in a buffer, and a count of calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        self.steps.add_(1)
        self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return (x - self.mean) * self.weight / self.steps


class Exchanged(nn.Module):
    """The new value of one buffer is the old one of another, which is a result, too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.zeros(8))
        self.register_buffer("second", torch.ones(8))

    def forward(self, x):
        old = self.first.clone()
        self.first.copy_(self.second)
        self.second.copy_(old + x.mean(0))
        return x + old, old


class Replaced(nn.Module):
    """A buffer that is assigned, not written; and returned."""

    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(6, 8))

    def forward(self, x):
        self.queue = torch.cat((self.queue[1:], x.mean(0, keepdim=True)))
        return torch.softmax(x @ self.queue.t(), -1), self.queue


class ReturnsWhatItKeeps(nn.Module):
    """The result is the new value of a buffer, in memory of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(5, 8))

    def forward(self, x):
        y = torch.tanh(x) + self.last
        self.last.copy_(y)
        return y


class Decays(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        with torch.no_grad():
            self.weight.mul_(0.99)
        return F.gelu(x * self.weight)


class Attributes(nn.Module):
    """Tensors that are no buffers: one is written in place, another one takes the place of the other."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(8, 8)
        self.cell.calls = torch.zeros((), dtype=torch.int64)
        self.hidden = torch.zeros(1, 8)

    def forward(self, x):
        self.cell.calls += 1
        self.hidden = self.cell(x.mean(0, keepdim=True), self.hidden)
        return F.layer_norm(x + self.hidden, (8,)) * self.cell.calls


class Closure(nn.Module):
    """A submodule that a function in an attribute closes over: in a copy it is the original's."""

    def __init__(self):
        super().__init__()
        self.parts = parts = nn.ModuleDict({"up": nn.Linear(8, 32), "down": nn.Linear(32, 8)})
        self.norm = nn.LayerNorm(8)
        self.body = lambda x: parts.down(F.gelu(parts.up(x)))

    def forward(self, x):
        return x + self.body(self.norm(x)) + self.parts.up(x)[:, :8]


class Structured(nn.Module):
    def forward(self, x):
        h = F.gelu(x)
        return {"loss": h.mean(), "parts": [h, (x, h * 2)], "count": 3}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 16, batch_first=True)

    def forward(self, x):
        return self.gru(x)


def adam(weight, gradient, mean, square):
    mean.lerp_(gradient, 0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    weight.addcdiv_(mean, square.sqrt() + 1e-8, value=-0.01)
    return weight


def writes_a_view(x, y):
    x[:, 1:].add_(y[:, 1:])
    x[0] = 0
    return x.sum(1)


class WrittenSteps(nn.Module):
    """A recurrence that writes its steps into a tensor, and reads the last one from there."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 6)

    def forward(self, x):
        steps = x.new_zeros(x.shape[0], 5, 6)
        for t in range(5):
            steps[:, t] = self.cell(x[:, t], steps[:, t - 1])
        return steps, steps[:, -1] * 2


def written_parts(x, y):
    z = x * 2
    z[:, 1:3] = y[:, :2] + z[:, 2:4]
    z[1:, 3] = z[1:, 2] - y[1:, 0]
    z[..., -1] = 0.5
    z[::2, 0] += 1
    z[:2] = z[1:3].clone()
    return z, z[:, 2], x


def put(x, places, values):
    z = torch.tanh(x)
    z[places] = values
    z[z > 0.5] = 0
    z.index_put_((places,), values, accumulate=True)
    return z * x


def spectrum(x):
    return torch.fft.rfft(x) * 2, torch.tanh(x)


def focal_loss(x, target):
    log = F.log_softmax(x, -1)
    chosen = log.gather(1, target[:, None])[:, 0]
    return (-((1 - chosen.exp()) ** 2) * chosen).mean()


def _rows(width, *counts):
    return [lambda n=n: [torch.randn(n, width)] for n in counts]


def _images(*sizes):
    return [lambda n=n, h=h: [torch.randn(n, 8, h, h + 1)] for n, h in sizes]


def _steps(*shapes):
    return [lambda s=s: [torch.randn(s).abs() for _ in range(4)] for s in shapes]


SEQUENTIAL = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.Sigmoid())
NORMS = nn.Sequential(nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, track_running_stats=True))
MODULES = {
    "sequential": (SEQUENTIAL, _rows(8, 5, 9)),
    "batch_norm_1d_train": (nn.BatchNorm1d(8).train(), _rows(8, 5, 9)),
    "batch_norm_2d_train": (nn.BatchNorm2d(8).train(), _images((3, 6), (2, 5))),
    # So many places that they are summed image by image.
    "batch_norm_large_images": (
        nn.BatchNorm2d(2).train(),
        [lambda n=n: [torch.randn(n, 2, 128, 257)] for n in (2, 3)],
    ),
    "batch_norm_cumulative": (
        nn.Sequential(nn.BatchNorm2d(8, momentum=None), nn.ReLU(), nn.BatchNorm2d(8, momentum=None, affine=False)),
        _images((3, 6), (2, 5)),
    ),
    "basic_block_eval": (BasicBlock().eval(), _images((3, 6), (2, 5))),
    "basic_block_train": (BasicBlock().train(), _images((3, 6), (2, 5))),
    "squeeze_excite": (SqueezeExcite(), _images((3, 6), (2, 5))),
    "depthwise_train": (Depthwise().train(), _images((3, 6), (2, 5))),
    "pools_after_convolutions": (
        nn.Sequential(
            *(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 1), nn.AvgPool2d(2)),
            *(nn.Conv2d(6, 4, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        ).train(),
        _images((3, 6), (2, 5)),
    ),
    "norms_train": (NORMS.train(), _images((3, 6), (2, 5))),
    "router": (Router(), _rows(16, 6, 11)),
    "tied": (Tied(), [lambda: [torch.randint(20, (4, 5))], lambda: [torch.randint(20, (2, 3))]]),
    "average": (Average(), _rows(8, 5, 9)),
    "exchanged": (Exchanged(), _rows(8, 5, 9)),
    "replaced": (Replaced(), _rows(8, 5, 9)),
    "returns_what_it_keeps": (ReturnsWhatItKeeps(), _rows(8, 5)),
    "decays": (Decays(), _rows(8, 5, 9)),
    "attributes": (Attributes(), _rows(8, 5, 9)),
    "closure": (Closure(), _rows(8, 5, 9)),
    "structured": (Structured(), _rows(8, 5, 9)),
    "gru_cell": (nn.GRUCell(8, 16), [lambda n=n: [torch.randn(n, 8), torch.randn(n, 16)] for n in (4, 2)]),
    "gru": (Recurrent(), [lambda n=n: [torch.randn(n, 5, 8)] for n in (4, 2)]),
    "encoder_layer_eval": (
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(),
        [lambda n=n, m=m: [torch.randn(n, m, 16)] for n, m in ((3, 5), (2, 7))],
    ),
    "adam": (adam, [*_steps((5, 16), (3, 16)), lambda: [torch.randn(16, 5).abs().t() for _ in range(4)]]),
    "writes_a_view": (writes_a_view, [lambda s=s: [torch.randn(s), torch.randn(s)] for s in ((4, 5), (2, 3))]),
    "written_steps": (WrittenSteps(), [lambda n=n: [torch.randn(n, 5, 8)] for n in (4, 2)]),
    "written_parts": (written_parts, [lambda n=n: [torch.randn(n, 6), torch.randn(n, 6)] for n in (4, 3)]),
    "put": (put, [lambda n=n: [torch.randn(n, 6), torch.tensor([2, 0]), torch.rand(2, 6)] for n in (4, 3)]),
    "spectrum": (spectrum, _rows(16, 4, 7)),
    "focal_loss": (focal_loss, [lambda n=n: [torch.randn(n, 9), torch.randint(9, (n,))] for n in (6, 13)]),
}
WRITES = {
    "batch_norm_1d_train": {"running_mean", "running_var", "num_batches_tracked"},
    "batch_norm_2d_train": {"running_mean", "running_var", "num_batches_tracked"},
    "batch_norm_large_images": {"running_mean", "running_var", "num_batches_tracked"},
    "batch_norm_cumulative": {
        f"{n}.{b}" for n in (0, 2) for b in ("running_mean", "running_var", "num_batches_tracked")
    },
    "basic_block_train": {f"bn{n}.{b}" for n in (1, 2) for b in ("running_mean", "running_var", "num_batches_tracked")},
    "depthwise_train": {
        f"norms.{n}.{b}" for n in ("a-b", "for") for b in ("running_mean", "running_var", "num_batches_tracked")
    },
    "pools_after_convolutions": {"0.running_mean", "0.running_var", "0.num_batches_tracked"},
    "norms_train": {"1.running_mean", "1.running_var"},
    "average": {"mean", "steps"},
    "exchanged": {"first", "second"},
    "replaced": {"queue"},
    "returns_what_it_keeps": {"last"},
    "decays": {"weight"},
    "attributes": {"hidden", "cell.calls"},
    "adam": {"weight", "mean", "square"},
    "writes_a_view": {"x"},
}
"""What a call of each leaves changed; of the others, nothing."""
TRITON = ("batch_norm_1d_train", "batch_norm_cumulative", "average", "exchanged", "returns_what_it_keeps", "adam",
          "writes_a_view", "structured", "written_steps", "written_parts", "basic_block_train", "depthwise_train",
          "attributes", "closure", "pools_after_convolutions", "batch_norm_large_images")  # fmt: skip
"""Those whose Triton files are run in Triton's interpreter; convolutions are the library's, with channels last."""
