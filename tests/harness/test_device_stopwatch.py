"""On an accelerator inputs are intact only while a call on them runs. Here on the processor, without times."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from kernelswarm.hardware.harness.calls import stopwatch as module
from kernelswarm.hardware.harness.calls.stopwatch import DeviceStopwatch
from kernelswarm.hardware.harness.messages.timing import Time

COPIES, SIDE, BATCHES = 3, 96, 20
INTERLEAVED = Time(calls=10, warm=4)

Kernel = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Event:
    def __init__(self, **_: Any) -> None:
        pass


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceStopwatch]:
    monkeypatch.setattr(module, "_Event", Event)
    monkeypatch.setattr(module, "_record", lambda event: None)
    monkeypatch.setattr(module, "_elapsed_time", lambda before, after: 0.0)
    monkeypatch.setattr(module, "_synchronize", lambda device: None)
    monkeypatch.setattr(module, "FLUSH_BYTES", 4)
    device_stopwatch = DeviceStopwatch(torch.device("cpu"))
    for _ in range(COPIES):
        device_stopwatch.add_inputs(fresh())
    with torch.no_grad():
        yield device_stopwatch


def fresh() -> list[torch.Tensor]:
    return [torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)]


class Judge:
    """Times a kernel as the harness does, and compares what was kept."""

    def __init__(self, stopwatch: DeviceStopwatch, kernel: Kernel) -> None:
        self.stopwatch, self.kernel = stopwatch, kernel
        self.wrong = 0
        self.right = [x @ w for x, w in stopwatch.copies]

    def time(self, command: Time, new: list[torch.Tensor] | None = None, turn: int = -1) -> int:
        def arrive() -> None:
            for old, tensor in zip(self.stopwatch.copies[turn], new or (), strict=False):
                old.copy_(tensor)

        timed, output = self.stopwatch.run(self.kernel, command, arrive=arrive)
        if new is not None:
            self.right[turn] = new[0] @ new[1]
        self.wrong += not torch.allclose(output, self.right[timed.kept], atol=1e-3)
        return timed.kept

    def everything(self) -> int:
        """An interleaved benchmark, and calls on unseen data; how many outputs were wrong."""
        for _ in range(BATCHES):
            self.time(INTERLEAVED)
        for _ in range(BATCHES):
            self.time(Time(calls=1, before=12, warm=COPIES - 1), fresh(), self.time(Time(calls=1)))
        return self.wrong


def test_an_honest_kernel_never_sees_another_value(stopwatch: DeviceStopwatch) -> None:
    assert Judge(stopwatch, lambda x, w: x @ w).everything() == 0


def test_who_looks_at_inputs_before_their_turn_is_wrong(stopwatch: DeviceStopwatch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    ahead: dict[int, torch.Tensor] = {}

    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        turn = next((index for index, (seen_x, _) in enumerate(seen) if seen_x is x), len(seen))
        if turn == len(seen):
            seen.append((x, w))
            return x @ w
        answer = ahead.pop(turn, None)
        coming = (turn + 1) % len(seen)
        ahead[coming] = seen[coming][0] @ seen[coming][1]
        return x @ w if answer is None else answer

    assert Judge(stopwatch, kernel).everything() > BATCHES


def test_who_computes_in_untimed_calls_what_it_returns_in_timed_ones_is_wrong(stopwatch: DeviceStopwatch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    samples: dict[int, torch.Tensor] = {}
    answers: dict[int, torch.Tensor] = {}

    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """Tells other data from a few poisoned elements by a sample, and answers all new data at once."""
        if all(seen_x is not x for seen_x, _ in seen):
            seen.append((x, w))
        for turn, (seen_x, seen_w) in enumerate(seen):
            sample = torch.cat([seen_x.flatten()[::101], seen_w.flatten()[::101]])
            if turn not in samples or bool((sample != samples[turn]).float().mean() > 0.25):
                samples[turn], answers[turn] = sample, seen_x @ seen_w
        return answers[next(turn for turn, (seen_x, _) in enumerate(seen) if seen_x is x)]

    assert Judge(stopwatch, kernel).everything() > BATCHES / 2


def test_spoiling_and_restoring_is_no_change_that_a_tensor_counts(stopwatch: DeviceStopwatch) -> None:
    versions: set[int] = set()

    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        versions.update({tensor._version for copy in stopwatch.copies for tensor in copy})
        return x @ w

    Judge(stopwatch, kernel).time(INTERLEAVED)
    assert len(versions) == 1


def test_between_batches_nothing_is_intact_and_a_call_that_raises_poisons_nothing_for_good(
    stopwatch: DeviceStopwatch,
) -> None:
    before = [[tensor.clone() for tensor in copy] for copy in stopwatch.copies]
    judge = Judge(stopwatch, lambda x, w: x @ w)
    judge.time(INTERLEAVED)
    poisoned = [
        any(not torch.equal(tensor, original) for tensor, original in zip(copy, originals, strict=True))
        for copy, originals in zip(stopwatch.copies, before, strict=True)
    ]

    def fails(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("it does not fit")

    with pytest.raises(RuntimeError, match="fit"):
        stopwatch.run(fails, INTERLEAVED)
    for _ in range(BATCHES):
        judge.time(INTERLEAVED)

    assert all(poisoned)
    assert judge.wrong == 0
