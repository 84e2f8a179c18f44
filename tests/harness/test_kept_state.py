"""What a module keeps, in the process that calls it: copied by few launches, and the same module in float64 twice."""

from collections.abc import Callable

import pytest
import torch

from kernelswarm.hardware.harness.calls import state
from kernelswarm.hardware.harness.messages.state import BUFFER, INPUT, StateEntry


class Average(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("wide", torch.zeros(4, 5).T)
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.seen += 1
        self.last = x
        self.wide.add_(1)
        return self.mean.mul_(0.5).add_(x)


def test_copies_of_small_tensors_share_a_memory_and_others_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "SMALL", 10)
    module, x = Average(), torch.arange(12.0)
    entries = [StateEntry(name=name, kind=BUFFER) for name in ("mean", "seen", "wide", "gone")]
    entries.append(StateEntry(name="x", kind=INPUT, tensor=0))
    module(torch.ones(3))

    mean, seen, wide, gone, given = state.after_call(entries, [x], module)
    other_mean, *_ = state.after_call(entries, [x], module)

    assert gone is None and torch.equal(given, x)
    pairs = (("mean", mean), ("seen", seen), ("wide", wide))
    assert all(torch.equal(copy, getattr(module, name)) for name, copy in pairs)
    assert wide.stride() == module.wide.stride()
    mean.fill_(9)
    assert not module.mean.eq(9).any() and not other_mean.eq(9).any() and seen == 1


@pytest.mark.parametrize("make", [lambda: torch.fft.fft(torch.eye(4)), lambda: torch.exp(1j * torch.arange(3.0))])
def test_buffers_that_lie_conjugated_or_negated_are_put_back(make: Callable[[], torch.Tensor]) -> None:
    module = torch.nn.Module()
    module.register_buffer("conjugated", make().conj())
    module.register_buffer("negated", make().conj().imag)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    start = state.Start(module)
    start.keep()
    for buffer in module.buffers():
        buffer.mul_(2)
    start.restore()
    assert all(torch.equal(buffer, before[name]) for name, buffer in module.named_buffers())


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_a_module_in_float64_begins_anew_whenever_it_is_asked_for(
    kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state.InPrecision, "KEPT_BYTES", kept_bytes)
    module = Average()
    wide = state.InPrecision(module, torch.float64)
    entries = [StateEntry(name="mean", kind=BUFFER), StateEntry(name="steps", kind="attribute")]
    answers = []

    for number in (1.0, 3.0):
        precise = wide.at_the_start()
        assert not hasattr(precise, "last")
        x = torch.full((3,), number, dtype=torch.float64)
        answers.append(state.with_state(precise, entries, precise)(x))

    for number, (output, mean, steps) in zip((1.0, 3.0), answers, strict=True):
        assert output.dtype is torch.float64 and steps == 1
        assert output.eq(number).all() and mean.eq(number).all()
    assert module.steps == 0 and module.mean.eq(0).all()
