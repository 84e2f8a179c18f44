"""Outputs of two ordinary processes are compared loosely: order of summation passes, other numbers do not."""

import math

import pytest

from kernelswarm.hardware.ordinary.agreement import difference
from kernelswarm.hardware.ordinary.process import Sampled


def sampled(*numbers: float, dtype: str = "torch.float32") -> Sampled:
    return Sampled(copy=0, forms=[[dtype, [len(numbers)]]], numbers=[numbers])


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (sampled(1.0, 2.0), sampled(1.0005, 2.0)),
        (sampled(1.0, 1e-9), sampled(1.0, -1e-9)),
        (sampled(math.inf, math.nan, 1.0), sampled(math.inf, math.inf, 1.0)),
        (sampled(1.0, dtype="torch.bfloat16"), sampled(1.04, dtype="torch.bfloat16")),
        (sampled(*[1.0] * 2000), sampled(*[1.0] * 1999, 5.0)),
        (sampled(), sampled()),
    ],
)
def test_these_agree(expected: Sampled, got: Sampled) -> None:
    assert difference(expected, got) == ""


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (sampled(1.0, 2.0), sampled(1.01, 2.0), "50 % of the numbers of output 0"),
        (sampled(math.inf), sampled(-math.inf), "100 % of the numbers"),
        (sampled(1.0), sampled(math.nan), "100 % of the numbers"),
        (sampled(0.0), sampled(1.0), "100 % of the numbers"),
        (sampled(1.0), sampled(1.0, dtype="torch.float64"), "output 0 is torch.float64"),
        (sampled(1.0), sampled(1.0, 1.0), "of shape [2], not"),
    ],
)
def test_these_do_not(expected: Sampled, got: Sampled, words: str) -> None:
    assert words in difference(expected, got)


def test_what_the_judge_allows_is_allowed_here_several_times() -> None:
    expected, got = sampled(1.0, 2.0), sampled(1.01, 2.0)
    assert difference(expected, got, bound=1e-4) != "" and difference(expected, got, bound=4e-3) == ""
