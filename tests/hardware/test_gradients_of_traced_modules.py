"""A module that turns gradients off for a part of its work gives gradients for the rest."""

import torch

from kernelswarm.hardware.sources.from_python import trace


class Tracked(torch.nn.Module):
    """An affine map that keeps a moving average of its input, as public code writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(8) + 0.5)
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return torch.tanh(x * self.weight - self.average)


def test_what_stands_under_no_grad_does_not_switch_gradients_off_for_the_rest() -> None:
    torch.manual_seed(0)
    module, x = Tracked(), torch.randn(4, 8)
    names: dict[str, object] = {}
    with torch.no_grad():
        source = trace(module, [x]).problem.source
    exec(source, names)
    weight, average = module.weight.detach().requires_grad_(), torch.zeros(8)
    with torch.enable_grad():
        outputs = names["reference"](x, weight, average)  # type: ignore[operator]
        assert torch.is_grad_enabled()
        outputs.sum().backward()
    expected = module(x)
    expected.sum().backward()
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(weight.grad, module.weight.grad)
    torch.testing.assert_close(average, module.average)
    with torch.no_grad():
        assert not names["reference"](x, weight, average).requires_grad  # type: ignore[operator]
        assert not torch.is_grad_enabled()
