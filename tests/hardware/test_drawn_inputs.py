"""Inputs are drawn like the given ones, infinities, NaN and the ends of a type's range among them."""

import pytest
import torch

from kernelswarm.hardware.sources.drawn_inputs import redrawn

INF, NAN = float("inf"), float("nan")
CAUSAL = torch.full((6, 6), -INF).triu(1)
LEAST = torch.finfo(torch.float16).min

SAME = {
    "causal": CAUSAL,
    "below": torch.full((5, 7), -INF).tril(-2),
    "batched": CAUSAL.expand(2, 3, 6, 6).contiguous(),
    "expanded": CAUSAL.expand(2, 3, 6, 6),
    "least number": torch.full((4, 4), LEAST, dtype=torch.float16).triu(1),
    "all alike": torch.full((3,), INF),
    "scalar": torch.tensor(NAN),
}


@pytest.mark.parametrize("case", SAME)
def test_masks_are_drawn_as_they_are(case: str) -> None:
    given = SAME[case]
    drawn = redrawn({"mask": given}, 0)["mask"]
    assert (drawn.dtype, drawn.stride()) == (given.dtype, given.stride())
    torch.testing.assert_close(drawn, given, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("extreme", [INF, -INF, NAN, torch.finfo(torch.float32).min])
def test_what_is_in_no_order_is_drawn_as_often(extreme: float) -> None:
    given = torch.where(torch.rand(200, 200, generator=torch.Generator().manual_seed(0)) < 0.2, extreme, 1.5)
    drawn = redrawn({"x": given}, 0)["x"]
    is_ordinary = drawn == 1.5
    assert 0.15 < float((~is_ordinary).float().mean()) < 0.25
    torch.testing.assert_close(
        drawn[~is_ordinary], torch.full_like(drawn[~is_ordinary], extreme), rtol=0, atol=0, equal_nan=True
    )


def test_edges_of_bins_ascend() -> None:
    drawn = redrawn({"edges": torch.tensor([-INF, *range(50), INF])}, 0)["edges"]
    assert bool((drawn[1:] >= drawn[:-1]).all()) and drawn.isfinite().sum() > 40


def test_a_turned_mask_lies_in_memory_as_it_did() -> None:
    drawn = redrawn({"mask": CAUSAL.t()}, 0)["mask"]
    assert drawn.stride() == (1, 6) and set(drawn.unique().tolist()) == {0.0, -INF}
