"""Harder inputs made from a problem's own keep what can be seen of their meaning."""

import math

import pytest
import torch

from kernelswarm.hardware.harness import derived
from kernelswarm.hardware.harness.derived import derive
from kernelswarm.hardware.harness.kinds import (
    ALL,
    BOTH,
    CENTRED,
    KINDS,
    SMALL_BYTES,
    STRIDED,
    VALUE_KINDS,
    in_words,
    instead_of,
    planned,
)


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def test_all_kinds_go_to_small_shapes_that_are_not_timed() -> None:
    sizes = {"main": 1 << 30, "wide": 4096, "ragged": 8192, "odd": 16, "huge": SMALL_BYTES + 1}

    found = planned(sizes, list(sizes))

    assert {kind for shape, kind in found if shape == "ragged"} == set(KINDS)
    assert {shape for shape, _ in found} == {"ragged", "wide"}


def test_a_lone_large_shape_gets_one_case_more() -> None:
    assert planned({"main": 1 << 30}, ["main"]) == [("main", BOTH)]
    assert {kind for _, kind in planned({"main": 4096}, ["main"])} == set(KINDS)


def test_where_wrong_answers_pass_there_are_inputs_with_negative_numbers() -> None:
    small = planned({"main": 4096}, ["main"], decided=False)

    assert [kind for _, kind in small] == [*KINDS, CENTRED]
    assert planned({"main": 1 << 33}, ["main"], decided=False) == [("main", ALL)]
    assert instead_of(ALL) == BOTH and instead_of(CENTRED) == ""


def test_of_several_large_shapes_the_smallest_gets_one_case() -> None:
    assert planned({"main": 1 << 33, "other": 1 << 32}, ["main", "other"]) == [("other", BOTH)]


def test_centred_numbers_have_both_signs() -> None:
    x, scale, signed = torch.rand(64, 8), torch.rand(8), _drawn(8)

    (moved, also, same) = derive([x, scale, signed], CENTRED, 1) or []

    assert float(moved.min()) < -0.4 and float(moved.max()) > 0.4 and same is signed
    assert torch.allclose(x - moved, torch.full_like(x, float(x.mean())), atol=1e-6)
    assert torch.allclose(scale - also, torch.full_like(scale, float(x.mean())), atol=1e-6)
    assert derive([signed], CENTRED, 1) is None


def test_large_tensors_are_changed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _drawn(3, 50, 7).transpose(0, 1)
    whole = {kind: derive([x], kind, 1) for kind in ("heavy_tailed", "shifted", BOTH)}
    monkeypatch.setattr(derived, "HOST_PART", 40)

    for kind, expected in whole.items():
        (changed,) = derive([x], kind, 1) or []
        assert expected is not None and torch.allclose(changed, expected[0], rtol=1e-6), kind
        assert changed.stride() == expected[0].stride()


def test_where_no_other_shape_is_small_the_smallest_is_taken() -> None:
    found = planned({"main": 1 << 30, "big": 1 << 28, "less": 1 << 27}, ["main", "big", "less"])

    assert {shape for shape, _ in found} == {"less"}


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_changed_and_the_originals_are_not(kind: str) -> None:
    x = _drawn(16, 40)
    kept = x.clone()

    (changed,) = derive([x], kind, 1) or []

    assert torch.equal(x, kept)
    assert changed.shape == x.shape and changed.dtype == x.dtype
    assert torch.equal(changed, x) is (kind == STRIDED)
    assert (changed.stride() != x.stride()) is (kind == STRIDED)
    again = derive([x], kind, 1) or []
    assert torch.equal(again[0].nan_to_num(), changed.nan_to_num()), "the same seed gives the same inputs"


@pytest.mark.parametrize("kind", VALUE_KINDS)
@pytest.mark.parametrize(
    "meant",
    [torch.randint(0, 9, (8, 8)), torch.randint(0, 2, (8, 8)).float(), torch.ones(4, 4, dtype=torch.bool)],
    ids=["integers", "flags", "mask"],
)
def test_whole_numbers_mean_something(kind: str, meant: torch.Tensor) -> None:
    assert derive([meant, 3, "text", None], kind, 1) is None

    changed = derive([_drawn(8, 8), meant, 0.5], kind, 1)

    assert changed is not None and changed[1] is meant and changed[2] == 0.5


@pytest.mark.parametrize("kind", VALUE_KINDS)
def test_what_has_no_negative_numbers_gets_none(kind: str) -> None:
    (changed,) = derive([_drawn(64, 8).abs()], kind, 1) or []

    assert not bool((changed < 0).any())


@pytest.mark.parametrize("kind", VALUE_KINDS)
@pytest.mark.parametrize("descending", [False, True])
def test_what_is_sorted_stays_sorted(kind: str, descending: bool) -> None:
    borders = torch.sort(_drawn(4, 30), dim=-1, descending=descending).values

    changed = derive([_drawn(4, 500), borders], kind, 1)

    assert changed is not None
    steps = changed[1].diff(dim=-1)
    assert bool((steps <= 0).all() if descending else (steps >= 0).all())


def test_what_is_shifted_together_stays_together() -> None:
    borders = torch.sort(_drawn(4, 30), dim=-1).values
    on_border = borders.gather(1, torch.randint(0, 30, (4, 90), generator=torch.Generator().manual_seed(1)))

    x, moved = derive([on_border, borders], "shifted", 1) or []

    assert torch.equal(torch.searchsorted(moved, x, right=True), torch.searchsorted(borders, on_border, right=True))
    assert float(x.mean()) > 20 * float(x.std())


def test_special_numbers_leave_most_rows_alone() -> None:
    for kind, found in (("infinite", torch.isinf), ("nan", torch.isnan)):
        (changed,) = derive([_drawn(40, 100)], kind, 1) or []
        touched = found(changed).any(dim=-1)
        assert 0 < int(touched.sum()) <= 10


def test_pairs_nearly_cancel_and_magnitudes_differ() -> None:
    (changed,) = derive([_drawn(8, 64)], "ill_conditioned", 1) or []

    pairs = changed[:, :32] + changed[:, 32:]
    assert bool((pairs.abs() <= 0.02 * changed[:, :32].abs()).all())
    assert float(changed.abs().max() / changed.abs().median()) > 100


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", VALUE_KINDS)
def test_other_precisions_stay_in_their_range(kind: str, dtype: torch.dtype) -> None:
    (changed,) = derive([(100 * _drawn(9, 33)).to(dtype)], kind, 1) or []

    assert changed.dtype == dtype
    assert bool(torch.isfinite(changed).all()) is (kind not in ("infinite", "nan"))


def test_what_lies_between_strided_elements_is_not_a_number() -> None:
    _, padded, vector = derive([_drawn(3, 5), _drawn(3, 5), _drawn(7)], STRIDED, 1) or []

    for tensor in (padded, vector):
        storage = torch.empty(0).set_(tensor.untyped_storage())
        assert int(torch.isnan(storage).sum()) == storage.numel() - tensor.numel() > 0


def test_how_far_strided_elements_are_apart_is_not_known_beforehand() -> None:
    x, vector = _drawn(4, 50), _drawn(50)
    drawn = [derive([x, x.clone(), vector], STRIDED, seed) or [] for seed in range(30)]

    assert all(torch.equal(one, x) and torch.equal(last, vector) for _, one, last in drawn)
    assert len({one.stride(0) for _, one, _ in drawn}) > 10 and min(one.stride(0) for _, one, _ in drawn) > 51
    assert {last.stride(0) for _, _, last in drawn} == {2, 3}


def test_infinities_that_are_there_already_stay() -> None:
    x = _drawn(6, 6)
    x[2, 3] = -math.inf

    (changed,) = derive([x], "heavy_tailed", 1) or []

    assert float(changed[2, 3]) == -math.inf and bool(torch.isfinite(changed[0]).all())


def test_kinds_have_words() -> None:
    assert in_words(BOTH) == "heavy-tailed, strided" and in_words("normal") == ""
