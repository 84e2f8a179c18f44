"""Inputs are drawn like the given ones, infinities, NaN and the ends of a type's range among them."""

import pytest
import torch

from kernelswarm.hardware.sources.drawn_inputs import inputs_text, redrawn
from kernelswarm.schemas import ProblemError

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


FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu)
WIDEST = torch.iinfo(torch.int64)
UNUSUAL = {
    **{f"ascending {dtype}": torch.arange(1, 9).to(dtype) for dtype in (*FLOAT8, torch.uint16, torch.uint64)},
    "complex": torch.randn(3, 4, dtype=torch.complex64),
    "complex, turned": torch.randn(3, 4, dtype=torch.complex128).t(),
    "complex, expanded": torch.randn(1, 4, dtype=torch.complex64).expand(3, 4),
    "conjugated": torch.randn(5, dtype=torch.complex64).conj(),
    "int64's largest": torch.tensor([WIDEST.max, 0]),
    "all of int64": torch.tensor([WIDEST.max, WIDEST.min]),
    "all of uint64": torch.tensor([2**64 - 1, 0], dtype=torch.uint64),
    "all of uint32": torch.tensor([[2**32 - 1, 0]] * 2, dtype=torch.uint32).t(),
    "scalar uint16": torch.tensor(7, dtype=torch.uint16),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_every_type_with_numbers_is_drawn(case: str) -> None:
    given = UNUSUAL[case]
    drawn = redrawn({"x": given}, 0)["x"]
    assert (drawn.dtype, drawn.shape, drawn.stride()) == (given.dtype, given.shape, given.stride())
    if case.startswith("ascending"):
        assert bool((drawn.double()[1:] >= drawn.double()[:-1]).all())


@pytest.mark.parametrize(
    "same",
    [
        torch.full((3,), WIDEST.max),
        torch.full((3,), 2**64 - 1, dtype=torch.uint64),
        torch.full((2, 2), 40_000, dtype=torch.uint16),
    ],
    ids=str,
)
def test_one_integer_is_drawn_as_itself(same: torch.Tensor) -> None:
    assert redrawn({"x": same}, 0)["x"].tolist() == same.tolist()


@pytest.mark.parametrize(("largest", "dtype"), [(3e38, torch.float64), (58.0, torch.float8_e4m3fnuz)])
def test_drawn_numbers_are_none_that_the_type_does_not_have(largest: float, dtype: torch.dtype) -> None:
    given = torch.tensor([[largest, -largest] * 100_000]).double().to(dtype)
    assert bool(redrawn({"x": given}, 0)["x"].double().isfinite().all())


def test_a_type_without_arithmetic_is_refused_with_the_inputs_name() -> None:
    packed = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(ProblemError, match=r"input 'codes' is of torch\.float4_e2m1fn_x2.*convert it before the call"):
        redrawn({"codes": packed}, 0)


def columns_of(rows: int, *sizes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(0, size, (rows,), generator=generator) for size in sizes], -1)


COLUMNS = {
    "tables": (columns_of(64, 5, 100, 7), -1),
    "few rows": (columns_of(4, 5, 100, 7), -1),
    "batched": (columns_of(64, 5, 100, 7).reshape(4, 16, 3), -1),
    "edges": (columns_of(40, 10, 5000).t().contiguous(), 0),
    "short": (columns_of(64, 5, 100).to(torch.int16), -1),
    "negative": (columns_of(64, 5, 100) - 70, -1),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_integers_keep_their_ranges(case: str) -> None:
    given, axis = COLUMNS[case]
    drawn = redrawn({"x": given}, 1)["x"]
    assert (drawn.dtype, drawn.shape) == (given.dtype, given.shape) and not torch.equal(drawn, given)
    for got, own in zip(drawn.unbind(axis), given.unbind(axis), strict=True):
        assert own.min() <= got.min() and got.max() <= own.max()


@pytest.mark.parametrize("seed", range(5))
def test_a_negative_number_that_marks_something_is_drawn_as_itself(seed: int) -> None:
    """Labels to be ignored: one between them and the classes is none that the loss takes."""
    given = torch.randint(3, 50, (4, 128))
    given[:, ::5] = -100
    drawn = redrawn({"labels": given}, seed)["labels"]
    rest = drawn[drawn != -100]
    assert 0.1 < 1 - rest.numel() / drawn.numel() < 0.3
    assert rest.min() >= 3 and rest.max() <= 49 and rest.unique().numel() > 20


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_offsets_begin_at_zero_and_keep_their_end(seed: int, dtype: torch.dtype) -> None:
    """Of bags, of sequences behind each other, of rows of a sparse matrix."""
    given = torch.tensor([0, 7, 12, 12, 30, 41], dtype=dtype)
    drawn = redrawn({"offsets": given}, seed)["offsets"]
    assert (drawn.dtype, drawn.shape) == (dtype, given.shape) and not torch.equal(drawn, given)
    assert drawn[0] == 0 and drawn[-1] == 41 and bool((drawn[1:] >= drawn[:-1]).all())


@pytest.mark.parametrize("seed", range(5))
def test_integers_of_one_range_are_drawn_from_all_of_it(seed: int) -> None:
    for shape in ((2, 16), (64, 3), (1, 3), (512, 4), (3, 64)):
        given = torch.randint(0, 30522, shape, generator=torch.Generator().manual_seed(seed))
        assert f"torch.randint({given.min()}, {given.max() + 1}, {shape}," in inputs_text({"x": given})


def test_rows_that_are_all_the_same_are_drawn_as_others() -> None:
    positions = torch.arange(16).expand(8, 16).contiguous()
    drawn = redrawn({"positions": positions}, 1)["positions"]
    assert not torch.equal(drawn, positions) and set(drawn.unique().tolist()) <= set(range(16))


@pytest.mark.parametrize(
    "given", [torch.randn(4, 30), torch.randn(2, 3, 8).double(), torch.randint(0, 99, (5, 12)), torch.randn(1, 9)]
)
def test_rows_that_ascend_do_so_again(given: torch.Tensor) -> None:
    drawn = redrawn({"edges": given.sort(-1).values}, 0)["edges"]
    assert bool((drawn[..., 1:] >= drawn[..., :-1]).all()) and drawn.dtype == given.dtype
    unordered = redrawn({"edges": given}, 0)["edges"]
    assert not bool((unordered[..., 1:] >= unordered[..., :-1]).all())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_permutation_is_drawn_as_one(dtype: torch.dtype) -> None:
    given = torch.tensor([3, 0, 4, 1, 2, 7, 6, 5], dtype=dtype)
    first, second = (redrawn({"order": given}, seed)["order"] for seed in (0, 1))
    assert first.dtype == dtype and not torch.equal(first, second)
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(8))
    labels = redrawn({"labels": given[torch.arange(3)] // 2}, 0)["labels"]
    assert labels.max() < 3 and "randperm" not in inputs_text({"labels": torch.tensor([2, 0, 1])})


@pytest.mark.parametrize("shape", [(12, 12), (3, 5, 5)])
def test_what_is_positive_definite_is_drawn_so(shape: tuple[int, ...]) -> None:
    half = torch.randn(shape)
    given = half @ half.mT + torch.eye(shape[-1])
    drawn = redrawn({"covariance": given}, 0)["covariance"]
    assert drawn.shape == given.shape and torch.equal(drawn, drawn.mT)
    assert not bool(torch.linalg.cholesky_ex(drawn).info.any())
    scale = float(given.diagonal(dim1=-2, dim2=-1).mean() / drawn.diagonal(dim1=-2, dim2=-1).mean())
    assert 0.3 < scale < 3
    assert "half" not in inputs_text({"x": given + torch.randn(shape)})


def test_columns_of_several_tables_keep_their_ranges_where_rows_ascend() -> None:
    given = torch.stack([torch.arange(64) % count + low for count, low in ((5, 0), (50, 5), (500, 60))], 1)
    drawn = redrawn({"indices": given}, 0)["indices"]
    assert (drawn.amax(0) < torch.tensor([5, 55, 560])).all() and drawn.dtype is torch.int64


@pytest.mark.parametrize("given", [torch.eye(4), torch.eye(4, dtype=torch.int64), torch.tensor([[2, 1], [1, 2]])])
def test_whole_numbers_and_diagonals_are_no_covariances(given: torch.Tensor) -> None:
    assert "half" not in inputs_text({"x": given})
    redrawn({"x": given}, 0)
