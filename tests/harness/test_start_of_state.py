"""What a module keeps is found, and put back in its place."""

import pytest
import torch
from torch import nn

from kernelswarm.hardware.harness.state import Start, read, roles

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
    kept = Kept()
    start, mean = Start(kept), kept.mean
    start.keep()
    with torch.no_grad():
        kept.weight.add_(1)
    kept.mean, kept.late, kept.count = torch.ones(2), torch.ones(3), 7
    kept.history.append(torch.ones(1))
    kept.made_later = 5

    assert start.changed() == {
        "weight": "parameter",
        "mean": "buffer",
        "late": "buffer",
        "history[0]": "attribute",
        "count": "attribute",
        "made_later": "attribute",
    }
    start.restore()

    assert start.changed() == {} and kept.mean is mean and not hasattr(kept, "made_later")
    assert kept.history == [] and kept.count == 0 and kept.late is None and kept.weight.tolist() == [1, 1]


async def test_names_are_those_of_state_dict() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))

    assert set(roles(layer)) == set(layer.state_dict())
    assert {"0.running_mean", "1.weight", "1.in_features"} <= set(read(layer))
