"""What a module keeps is found, and put back in its place."""

import pytest
import torch
from torch import nn

from kernelswarm.hardware.harness.calls.state import Start, read, roles

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("late", None)
        self.history: list[torch.Tensor] = []
        self.count = 0


async def test_everything_is_put_back_in_its_place() -> None:
    module = Kept()
    start, mean = Start(module), module.mean
    start.keep()
    with torch.no_grad():
        module.weight.add_(1)
    module.mean, module.late, module.count = torch.ones(2), torch.ones(3), 7
    module.history.append(torch.ones(1))
    module.made_later = 5

    assert start.changed() == {
        "weight": "parameter",
        "mean": "buffer",
        "late": "buffer",
        "history[0]": "attribute",
        "count": "attribute",
        "made_later": "attribute",
    }
    start.restore()

    assert start.changed() == {} and module.mean is mean and not hasattr(module, "made_later")
    assert module.history == [] and module.count == 0 and module.late is None and module.weight.tolist() == [1, 1]


async def test_names_are_those_of_state_dict() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))

    assert set(roles(layer)) == set(layer.state_dict())
    assert {"0.running_mean", "1.weight", "1.in_features"} <= set(read(layer))
