"""How wrong a candidate may be."""

import pytest

from kernelswarm.hardware.harness.bounds import Tolerance, bound_for, read_tolerance
from kernelswarm.hardware.harness.messages import UNMEASURABLE, Compared
from kernelswarm.hardware.harness.verification import explain_numbers
from kernelswarm.schemas import ProblemError

NOTHING = Tolerance()


def test_a_multiple_of_the_references_own_error() -> None:
    assert bound_for("float32", 1e-5, float64=True, tolerance=NOTHING) == pytest.approx(4e-5)


def test_at_least_a_few_units_in_the_last_place() -> None:
    assert bound_for("float32", 0.0, float64=True, tolerance=NOTHING) == pytest.approx(1.9e-6, rel=0.01)


@pytest.mark.parametrize(("dtype", "lower_precision"), [("float32", 2.0**-11), ("bfloat16", 2.0**-4)])
def test_a_lower_precision_is_outside(dtype: str, lower_precision: float) -> None:
    assert bound_for(dtype, 0.0, float64=True, tolerance=NOTHING) < lower_precision


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_integers_are_exact(dtype: str) -> None:
    assert bound_for(dtype, 0.0, float64=True, tolerance=NOTHING) == 0.0


def test_without_a_float64_oracle_the_precision_itself_decides() -> None:
    assert bound_for("float32", 0.0, float64=False, tolerance=NOTHING) == 2e-5


def test_a_problem_may_set_its_own() -> None:
    assert bound_for("float32", 0.0, float64=True, tolerance=read_tolerance(1e-3)) == 1e-3
    assert read_tolerance({"rtol": 1e-3}) == Tolerance(atol=0.0, rtol=1e-3)
    assert bound_for("float32", 0.0, float64=True, tolerance=read_tolerance({"rtol": 1e-3})) == 1.0


@pytest.mark.parametrize("value", ["1e-3", -1.0, float("nan"), {}, {"tol": 1.0}, True, [1e-3]])
def test_what_is_no_tolerance_is_refused(value: object) -> None:
    with pytest.raises(ProblemError, match="tolerance ="):
        read_tolerance(value)


def test_what_cannot_be_compared_has_no_error_in_words() -> None:
    comparison = Compared(
        ok=False, error=UNMEASURABLE, reference_error=0.0, bound=0.0, element=(3,), got="4", expected="5"
    )
    assert explain_numbers(comparison) == "output 0[3] is 4, expected 5"
