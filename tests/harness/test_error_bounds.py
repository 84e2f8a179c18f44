"""How wrong a candidate may be."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from kernelswarm.hardware.harness.messages.commands import UNMEASURABLE, Compared, Open
from kernelswarm.hardware.harness.reference import other_kernels
from kernelswarm.hardware.harness.reference.effects import called
from kernelswarm.hardware.harness.reference.other_kernels import ConvolutionsInTF32, by_other_kernels
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.harness.reference.targets import targets_of
from kernelswarm.hardware.harness.tensors.bounds import ABSOLUTE, Tolerance, bound_for, read_tolerance
from kernelswarm.hardware.harness.tensors.compare import Target
from kernelswarm.hardware.harness.tensors.roundings import to_tf32
from kernelswarm.hardware.harness.verification import explain_numbers
from kernelswarm.schemas import ProblemError, ProblemFormat

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


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        (1e-5, ": error 0.25 of |expected| + rms, allowed 1e-05 (the reference's own is 1e-07)"),
        (ABSOLUTE, ": 0.25 times as far off as the problem's atol and rtol allow (the reference's own is 1e-07)"),
        (2 * ABSOLUTE, ": 0.25 times as far off as the problem's atol and rtol allow (the reference's own is 1e-07)"),
        (0.0, "; such values have to be equal"),
    ],
)
def test_an_error_says_what_it_is_relative_to(bound: float, says: str) -> None:
    comparison = Compared(ok=False, error=0.25, reference_error=1e-7, bound=bound, element=(), got="4", expected="5")
    assert explain_numbers(comparison) == f"output 0 is 4, expected 5{says}"


LONG_SUMS = """
import torch
import torch.nn.functional as F
shapes = {"main": dict(channels=500, filters=96)}
def inputs(generator, channels, filters):
    weight = torch.randn(filters, channels, 3, generator=generator) / channels**0.5
    return [torch.randn(16, channels, 100, generator=generator), weight]
def reference(x, weight): return F.conv1d(x, weight, padding=1)
"""


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN")
def test_a_plain_sum_of_many_products_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    problem = Open(name="long_sums", format=ProblemFormat.function, source=LONG_SUMS, seed=1)
    reference = open_reference(problem)
    x, weight = reference.draw("main", 1)
    usual = called(reference, problem, [x, weight]).answer

    (target,) = targets_of(reference, problem, [x, weight])

    (other,) = by_other_kernels(reference, problem, [x, weight], (), usual)
    assert target.reference_error > Target(usual[0], reference.precise([x, weight]), NOTHING).reference_error
    assert target.accepts(other) and not target.accepts(other * (1 + 1e-4))


def test_convolutions_in_tf32_count_as_the_reference_s_own_where_switches_permit_them() -> None:
    x, weight, more = torch.randn(2, 8, 9, 9), torch.randn(4, 8, 3, 3), torch.randn(5, 8, 3, 3).requires_grad_()
    with ConvolutionsInTF32() as rounding:
        rounded, product = F.conv2d(x, weight), x[0, 0] @ x[0, 1]
        (gradient,) = torch.autograd.grad(F.conv2d(x, more).square().sum(), more)
    assert rounding.met
    assert torch.equal(rounded, F.conv2d(to_tf32(x), to_tf32(weight)))
    special = torch.tensor([0x7FFFFFFF, 0x7F800000, -0x800000, 0x3F801000], dtype=torch.int32).view(torch.float32)
    assert to_tf32(special).tolist()[1:] == [math.inf, -math.inf, 1 + 2**-10] and to_tf32(special)[0].isnan()
    assert torch.equal(product, x[0, 0] @ x[0, 1])
    (exact,) = torch.autograd.grad(F.conv2d(x, more).square().sum(), more)
    assert 1e-5 < (gradient - exact).norm() / exact.norm() < 1e-2

    usual, precise = F.conv2d(x, weight), F.conv2d(x.double(), weight.double())
    allowed = Target(usual, precise, NOTHING, permitted=rounded)
    assert allowed.accepts(rounded) and not allowed.accepts(rounded * 1.01)
    assert not Target(usual, precise, NOTHING).accepts(rounded)
    with ConvolutionsInTF32() as rounding:
        x[0, 0] @ x[0, 1]
    assert not rounding.met


NETWORK = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.line = nn.Linear(8, 5)
    def forward(self, x):
        y = self.body(x)
        return y, self.line(x[:, :, 0, :8])
def get_inputs(): return [torch.randn(3, 4, 12, 12)]
def get_init_inputs(): return []
"""


def test_bounds_of_a_network_are_those_of_tf32_where_it_is_permitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    problem = Open(name="network", format=ProblemFormat.kernelbench, source=NETWORK, seed=1)
    reference = open_reference(problem)
    inputs = reference.draw("main", 1)
    exact = targets_of(reference, problem, list(inputs))
    assert not any(target.is_tf32 for target in exact)
    monkeypatch.setattr(other_kernels, "HOST", "another device")
    wide = targets_of(reference, problem, list(inputs))
    assert [target.is_tf32 for target in wide] == [True, False, True, True, False]
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    forbidden = targets_of(reference, problem, list(inputs))

    ratios = [w.bound / e.bound for w, e in zip(wide, exact, strict=True) if e.floating]
    output, product, *statistics = ratios
    assert output > 50 and product == 1 and len(statistics) == 2 and max(statistics) > 10
    assert [target.bound for target in forbidden] == [target.bound for target in exact]


def test_kernels_that_are_far_off_say_little() -> None:
    exact = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    usual = Target(exact.float(), exact, NOTHING)

    wrong = Target(exact.float(), exact, NOTHING, (), exact.float() * 1.01)

    assert wrong.bound == pytest.approx(4 * usual.bound)
