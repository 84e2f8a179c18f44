"""Problems that nobody here made: modules as PyTorch has them, and blocks as models use them."""

_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def module(body: str, inputs: str, arguments: str = "[]") -> str:
    """A KernelBench file."""
    return f"{_HEAD}{body}\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {arguments}\n"


def holding(layer: str, inputs: str, call: str = "self.inner(x)", more: str = "") -> str:
    """A module that holds ``layer``."""
    names = "x" + (", y" if "y" in call.split("(", 1)[-1].split(",")[-1:] else "")
    return module(
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = {layer}\n"
        f"        {more or 'pass'}\n    def forward(self, {names}):\n        return {call}\n",
        inputs,
    )


SE = """
class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4), nn.ReLU())
        self.excite = nn.Sequential(nn.Linear(4, channels), nn.Sigmoid())
    def forward(self, x):
        return x * self.excite(self.squeeze(x))[:, :, None, None]
"""
MASKED = """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x, scale=None, mask=None):
        y = torch.sigmoid(self.linear(x)) + mask
        return y if scale is None else y * scale
"""
EMA = """
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.full((size,), 0.5), persistent=False)
        self.steps = 0
    def forward(self, x):
        y = self.linear(x)
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        self.steps += 1
        return y * self.scale
"""
MODULES = {
    "mlp": holding("nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.LayerNorm(48))", "[torch.randn(6, 24)]"),
    "norm": holding("nn.BatchNorm1d(16)", "[torch.randn(12, 16)]"),
    "norm_eval": holding("nn.BatchNorm1d(16)", "[torch.randn(12, 16)]", more="self.eval()"),
    "gru": module(
        "class Model(nn.GRU):\n    def forward(self, x):\n        return super().forward(x)[0]\n",
        "[torch.randn(2, 5, 8)]",
        "[8, 12]",
    ),
    "attention": holding(
        "nn.MultiheadAttention(16, 4, batch_first=True)", "[torch.randn(2, 7, 16)]", "self.inner(x, x, x)[0]"
    ),
    "encoder": holding(
        "nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)", "[torch.randn(2, 7, 16)]"
    ),
    "weight_norm": holding("nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 8, 3))", "[torch.randn(2, 6, 9)]"),
    "lazy": holding("nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.ELU())", "[torch.randn(6, 12)]"),
    "hooked": holding(
        "nn.Sequential(nn.Linear(12, 8), nn.Tanh())",
        "[torch.randn(6, 12)]",
        more="self.inner[0].register_forward_hook(lambda layer, given, result: result * 2)",
    ),
    "named": module(MASKED, '{"mask": torch.randn(6, 24), "x": torch.randn(6, 24)}', '{"width": 24}'),
    "se": module(SE, "[torch.randn(2, 8, 5, 5)]", "[8]"),
    "ema": module(EMA, "[torch.randn(6, 10)]", "[10]"),
    "loss": module(
        "class Model(nn.CrossEntropyLoss):\n    pass\n", "[torch.randn(6, 10), torch.randint(0, 10, (6,))]", "[]"
    ),
}
"""By name."""
