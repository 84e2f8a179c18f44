"""Harder inputs made from a problem's own keep what can be seen of their meaning."""

import math

import pytest
import torch

from kernelswarm.hardware.harness.inputs.variants import (
    ALL,
    BOTH,
    CENTRED,
    DOMINATED,
    FAR,
    FEW,
    MOST_TIMED_BYTES,
    REPEATED,
    SMALL_BYTES,
    SPARSE_CHANGES,
    SPREAD,
    STRIDED,
    VALUE_VARIANTS,
    VARIANTS,
    in_words,
    instead_of,
    left_out,
    parts,
    planned,
)
from kernelswarm.hardware.harness.reference import derived
from kernelswarm.hardware.harness.reference.derived import derive


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def _at_timed_shape(inputs: int, outputs: int, *, decided: bool = True) -> list[str]:
    return [variant for _, variant in planned({"main": inputs}, {"main": inputs + outputs}, decided=decided)]


def test_all_variants_go_to_small_shapes_and_to_the_timed_one() -> None:
    sizes = {"main": 1 << 20, "wide": 4096, "ragged": 8192, "odd": 16, "huge": SMALL_BYTES + 1}

    plan = planned(sizes, {"main": 1 << 21})

    for shape in ("ragged", "main"):
        assert [variant for named, variant in plan if named == shape] == list(VARIANTS)
    assert {shape for shape, _ in plan} == {"ragged", "wide", "main"}


@pytest.mark.parametrize("size", [1, 1 << 23, 1 << 24, 1 << 25, 3 << 24, 1 << 26])
def test_every_variant_is_tried_at_the_timed_shape_in_three_cases_or_what_fits(size: int) -> None:
    for outputs in (size, 4):
        variants = _at_timed_shape(size, outputs)

        assert {part for variant in variants for part in parts(variant)} == set(VARIANTS)
        assert len(variants) == 3 or len(variants) * (size + outputs) <= MOST_TIMED_BYTES * 5 / 3
        assert not left_out(size + outputs)


def test_large_inputs_are_changed_in_blocks() -> None:
    assert _at_timed_shape(1 << 24, 1 << 24) == ["|".join(FAR), "|".join(FEW), STRIDED, SPARSE_CHANGES]
    assert _at_timed_shape(1 << 25, 4) == ["|".join(FAR), *FEW, STRIDED, SPARSE_CHANGES], (
        "reductions have cases of their own"
    )
    assert _at_timed_shape(1 << 28, 1 << 28) == ["|".join((*FAR, *FEW)), BOTH, SPARSE_CHANGES]
    assert _at_timed_shape(1 << 30, 1 << 30) == ["|".join((*FAR, *FEW)), BOTH]
    assert left_out(1 << 31) == ("tiny", "infinite", "nan")


def test_where_wrong_answers_pass_there_are_inputs_with_negative_numbers() -> None:
    assert _at_timed_shape(4096, 4096, decided=False) == [*VARIANTS, CENTRED, SPREAD]
    assert _at_timed_shape(1 << 24, 1 << 24, decided=False)[-2:] == [CENTRED, SPREAD]
    assert _at_timed_shape(1 << 33, 1 << 33, decided=False)[-2:] == [ALL, SPREAD]


def test_what_means_nothing_together_is_tried_alone() -> None:
    assert instead_of(ALL) == (BOTH,) and instead_of(CENTRED) == ()
    assert instead_of("|".join(FAR)) == FAR and instead_of(BOTH) == (STRIDED,)


def test_of_several_large_shapes_the_smallest_gets_one_case() -> None:
    plan = planned({"main": 1 << 33, "other": 1 << 32, "more": 1 << 33}, {"main": 1 << 34})

    assert plan[0] == ("other", BOTH) and {shape for shape, _ in plan[1:]} == {"main"}


def test_blocks_of_rows_are_of_different_variants() -> None:
    x, weight = _drawn(30, 64), _drawn(64)

    (changed, same) = derive([x, weight], f"shifted|{REPEATED}|heavy_tailed", 1) or []

    assert same is weight and changed.shape == x.shape
    assert float((changed[:10] - x[:10]).std()) < 1e-4 and float(changed[:10].mean()) > 20
    assert float(changed[10:20].median(-1).values.std()) < 0.01
    assert float(changed[20:].abs().max()) > 20


def test_a_tensor_with_fewer_rows_than_variants_is_cut_along_another_dimension() -> None:
    (changed,) = derive([_drawn(2, 90)], f"shifted|{REPEATED}|heavy_tailed", 1) or []

    assert float(changed[:, 30:60].median(-1).values.std()) < 0.01 and float(changed[:, :30].min()) > 20


def test_a_few_numbers_dominate_every_row() -> None:
    x = _drawn(50, 4096)

    (changed,) = derive([x], DOMINATED, 1) or []

    largest = changed.square().topk(5, dim=-1).values.sum(-1)
    assert bool((largest > 0.99 * changed.square().sum(-1)).all())
    assert 0.99 * float(x.max()) < float(changed.max()) <= float(x.max())


def test_few_rows_dominate_a_mean() -> None:
    (changed,) = derive([_drawn(4096, 64)], DOMINATED, 1) or []

    rows = changed.square().sum(-1).sort(descending=True).values
    assert float(rows[:64].sum()) > 0.99 * float(rows.sum())


def test_nearly_equal_numbers_make_nearly_equal_errors() -> None:
    for x in (_drawn(50, 128), _drawn(50, 128).exp(), -_drawn(50, 128).abs()):
        (changed,) = derive([x], REPEATED, 1) or []

        usual, larger = changed.sort(-1).values.split([127, 1], dim=-1)
        assert float(usual.max() - usual.min()) < 0.02 * float(x.std())
        assert float(larger.min()) > float(usual.max()) + 0.1
        assert float(x.min()) <= float(changed.min()) and float(changed.max()) <= float(x.max())


def test_numbers_that_are_repeated_can_be_summed_in_any_order() -> None:
    """Of a thousand equal numbers a plain sum is off by ninety epsilons, always in the same direction."""
    (changed,) = derive([_drawn(9, 8191)], REPEATED, 1) or []

    sequential_sum = changed[:, 0].clone()
    for column in changed[:, 1:].unbind(-1):
        sequential_sum += column

    error = (sequential_sum - changed.double().sum(-1)).abs() / changed.double().sum(-1).abs()
    assert float(error.max()) < 16 * 2.0**-23


def test_infinite_numbers_and_nan_lie_in_rows_of_their_own() -> None:
    (changed,) = derive([_drawn(64, 32)], SPARSE_CHANGES, 1) or []

    rows = [set(special.any(-1).nonzero().reshape(-1).tolist()) for special in (changed.isinf(), changed.isnan())]
    assert rows[0] and rows[1] and not rows[0] & rows[1]


def test_centred_numbers_have_both_signs() -> None:
    x, scale, signed = torch.rand(64, 8), torch.rand(8), _drawn(8)

    (moved, also, same) = derive([x, scale, signed], CENTRED, 1) or []

    assert float(moved.min()) < -0.4 and float(moved.max()) > 0.4 and same is signed
    assert torch.allclose(x - moved, torch.full_like(x, float(x.mean())), atol=1e-6)
    assert torch.allclose(scale - also, torch.full_like(scale, float(x.mean())), atol=1e-6)
    assert derive([signed], CENTRED, 1) is None


def test_large_tensors_are_changed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _drawn(3, 50, 7).transpose(0, 1)
    whole = {variant: derive([x], variant, 1) for variant in ("heavy_tailed", "shifted", BOTH)}
    monkeypatch.setattr(derived, "HOST_PART", 40)

    for variant, expected in whole.items():
        (changed,) = derive([x], variant, 1) or []
        assert expected is not None and torch.allclose(changed, expected[0], rtol=1e-6), variant
        assert changed.stride() == expected[0].stride()


def test_where_no_other_shape_is_small_the_smallest_is_taken() -> None:
    plan = planned({"main": 1 << 30, "big": 1 << 28, "less": 1 << 27}, {"main": 1 << 31})

    assert {shape for shape, _ in plan} == {"less", "main"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_inputs_are_changed_and_the_originals_are_not(variant: str) -> None:
    x = _drawn(16, 40)
    original = x.clone()

    (changed,) = derive([x], variant, 1) or []

    assert torch.equal(x, original)
    assert changed.shape == x.shape and changed.dtype == x.dtype
    assert torch.equal(changed, x) is (variant == STRIDED)
    assert (changed.stride() != x.stride()) is (variant == STRIDED)
    again = derive([x], variant, 1) or []
    assert torch.equal(again[0].nan_to_num(), changed.nan_to_num()), "the same seed gives the same inputs"


@pytest.mark.parametrize("variant", VALUE_VARIANTS)
@pytest.mark.parametrize(
    "meant",
    [torch.randint(0, 9, (8, 8)), torch.randint(0, 2, (8, 8)).float(), torch.ones(4, 4, dtype=torch.bool)],
    ids=["integers", "flags", "mask"],
)
def test_whole_numbers_mean_something(variant: str, meant: torch.Tensor) -> None:
    assert derive([meant, 3, "text", None], variant, 1) is None

    changed = derive([_drawn(8, 8), meant, 0.5], variant, 1)

    assert changed is not None and changed[1] is meant and changed[2] == 0.5


@pytest.mark.parametrize("variant", VALUE_VARIANTS)
def test_what_has_no_negative_numbers_gets_none(variant: str) -> None:
    (changed,) = derive([_drawn(64, 8).abs()], variant, 1) or []

    assert not bool((changed < 0).any())


@pytest.mark.parametrize("variant", VALUE_VARIANTS)
@pytest.mark.parametrize("descending", [False, True])
def test_what_is_sorted_stays_sorted(variant: str, descending: bool) -> None:
    borders = torch.sort(_drawn(4, 30), dim=-1, descending=descending).values

    changed = derive([_drawn(4, 500), borders], variant, 1)

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
    for variant, predicate in (("infinite", torch.isinf), ("nan", torch.isnan)):
        (changed,) = derive([_drawn(40, 100)], variant, 1) or []
        touched = predicate(changed).any(dim=-1)
        assert 0 < int(touched.sum()) <= 10


def test_pairs_nearly_cancel_and_magnitudes_differ() -> None:
    (changed,) = derive([_drawn(8, 64)], "ill_conditioned", 1) or []

    pairs = changed[:, :32] + changed[:, 32:]
    assert bool((pairs.abs() <= 0.02 * changed[:, :32].abs()).all())
    assert float(changed.abs().max() / changed.abs().median()) > 100


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("variant", VALUE_VARIANTS)
def test_other_precisions_stay_in_their_range(variant: str, dtype: torch.dtype) -> None:
    (changed,) = derive([(100 * _drawn(9, 33)).to(dtype)], variant, 1) or []

    assert changed.dtype == dtype
    assert bool(torch.isfinite(changed).all()) is (variant not in ("infinite", "nan"))


def test_what_lies_between_strided_elements_is_not_a_number() -> None:
    _, padded, vector = derive([_drawn(3, 5), _drawn(3, 5), _drawn(7)], STRIDED, 1) or []

    for tensor in (padded, vector):
        storage = torch.empty(0).set_(tensor.untyped_storage())
        assert int(torch.isnan(storage).sum()) == storage.numel() - tensor.numel() > 0


def test_how_far_strided_elements_are_apart_is_not_known_beforehand() -> None:
    x, vector = _drawn(4, 50), _drawn(50)
    drawn = [derive([x, x.clone(), vector], STRIDED, seed) or [] for seed in range(30)]

    assert all(torch.equal(matrix, x) and torch.equal(last, vector) for _, matrix, last in drawn)
    assert (
        len({matrix.stride(0) for _, matrix, _ in drawn}) > 10 and min(matrix.stride(0) for _, matrix, _ in drawn) > 51
    )
    assert {last.stride(0) for _, _, last in drawn} == {2, 3}


def test_infinities_that_are_there_already_stay() -> None:
    x = _drawn(6, 6)
    x[2, 3] = -math.inf

    (changed,) = derive([x], "heavy_tailed", 1) or []

    assert float(changed[2, 3]) == -math.inf and bool(torch.isfinite(changed[0]).all())


def test_variants_have_words() -> None:
    assert in_words(BOTH) == "heavy-tailed, strided" and in_words("normal") == ""
