"""Equal to the last digit: on an accelerator, which is waited for once, as in main memory."""

from typing import Any

import pytest
import torch

from kernelswarm.hardware.harness.tensors import flat, likeness

NAN = torch.tensor([1.0, torch.nan])
PAIRS: list[tuple[Any, Any, bool]] = [
    (torch.ones(3), torch.ones(3), True),
    (torch.ones(3), torch.ones(4), False),
    (torch.ones(3), torch.ones(3, dtype=torch.float64), False),
    (torch.tensor([0.0]), torch.tensor([-0.0]), True),
    (NAN, NAN.clone(), True),
    (NAN, torch.ones(2), False),
    (torch.complex(NAN, NAN), torch.complex(NAN, NAN), True),
    (torch.zeros(0), torch.zeros(0), True),
    (torch.tensor(2), torch.tensor(3), False),
    ([torch.ones(2), {"a": torch.ones(1)}, 3], [torch.ones(2), {"a": torch.ones(1)}, 3], True),
    ([torch.ones(2), {"a": torch.ones(1)}], [torch.ones(2), {"a": torch.zeros(1)}], False),
    ([torch.ones(2)], [torch.ones(2), None], False),
    (float("nan"), float("nan"), True),
    (None, torch.ones(1), False),
]


@pytest.mark.parametrize("place", ["cpu", "elsewhere"])
def test_pairs_are_the_same_wherever_they_lie(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "HOST", "cpu" if place == "cpu" else "nowhere")
    assert likeness.each_same((left, right) for left, right, _ in PAIRS) == [answer for *_, answer in PAIRS]
    assert [likeness.same(left, right) for left, right, _ in PAIRS] == [answer for *_, answer in PAIRS]
    assert likeness.each_same([]) == []


def test_what_is_small_comes_to_main_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "HOST", "nowhere")
    monkeypatch.setattr(flat, "SMALL", 6)
    answers = [torch.randn(2, 3).T, None, torch.tensor(3), 2.0, torch.randn(7), torch.randn(3), torch.zeros(0)]
    moved = flat.to_main_memory(list(answers), range(1, len(answers)))
    stayed = [index for index, (now, before) in enumerate(zip(moved, answers, strict=True)) if now is before]
    assert stayed == [0, 1, 3, 4]
    assert all(likeness.each_same(zip(moved, answers, strict=True)))
    assert flat.to_main_memory([answers[0]], [0])[0].shape == (3, 2)
