"""TF32 counts as the reference's own precision where torch's switches permit it, and lets no wrong kernel pass by that.

What a GPU does is tried in main memory here: that eager is exact, and that its convolutions may be in TF32.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from kernelswarm.hardware.harness.calls.answering import Refused
from kernelswarm.hardware.harness.inputs.variants import VALUE_VARIANTS
from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference import other_kernels
from kernelswarm.hardware.harness.reference.examination import examined
from kernelswarm.hardware.harness.reference.gradients import followed, gradient_case, parameters_of
from kernelswarm.hardware.harness.reference.problem import ReferenceProblem, open_reference
from kernelswarm.hardware.harness.reference.targets import targets_of
from kernelswarm.hardware.harness.reference.validity import InvalidVariant, changed, usual
from kernelswarm.hardware.harness.tensors.bounds import Tolerance
from kernelswarm.hardware.harness.tensors.compare import Target
from kernelswarm.hardware.harness.tensors.roundings import to_tf32
from kernelswarm.schemas import ProblemFormat

FILE = """
import torch
from torch import nn
from torch.nn import functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3)
        self.traced = torch.jit.trace(self.conv, torch.ones(1, 4, 3, 3))
    def forward(self, x):
        {forward}
def get_inputs(): return [torch.randn(8, 4, 24, 24)]
def get_init_inputs(): return []
"""
RELU = "return torch.relu(self.conv(x))"

Opened = Callable[..., tuple[ReferenceProblem, Open]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    monkeypatch.setattr(other_kernels, "HOST", "another device")

    def opened(forward: str, more: str = "") -> tuple[ReferenceProblem, Open]:
        source = FILE.format(forward=forward) + more
        problem = Open(name="network", format=ProblemFormat.kernelbench, source=source, seed=1)
        return open_reference(problem), problem

    return opened


def targets(of: tuple[ReferenceProblem, Open]) -> list[Target]:
    reference, problem = of
    return targets_of(reference, problem, reference.draw("main", 1))


@pytest.mark.parametrize("variant", VALUE_VARIANTS)
def test_harder_inputs_are_used_although_tf32_is_far_off_there(opened: Opened, variant: str) -> None:
    reference, problem = opened(RELU)
    assert reference.module is not None
    weight, bias = reference.module.conv.weight, reference.module.conv.bias
    like = usual(reference.draw("main", 1), targets((reference, problem)))
    (x,), (target,) = changed(
        reference, problem, lambda seed: reference.draw("main", seed), variant, 1, like.error, in_tf32=like.in_tf32
    )
    assert target.reference_error > 4096 * 2.0**-23 and target.is_tf32
    assert target.accepts(torch.relu(F.conv2d(to_tf32(x), to_tf32(weight), bias)))
    clamped = torch.relu(F.conv2d(x.nan_to_num().clamp(-5, 5), weight, bias))
    assert target.accepts(clamped) == (bool((x.abs() <= 5).all()) or variant == "repeated")


STEPS = {
    "a step of the rounding's size": "return torch.round(self.conv(x) * 127) / 127",
    "a large step": "return torch.sign(self.conv(x))",
    "a threshold": "y = self.conv(x); return torch.where(y > 0.5, y, 0.0)",
}


@pytest.mark.parametrize("name", STEPS)
def test_what_jumps_in_tf32_raises_no_bound(opened: Opened, name: str) -> None:
    (target,) = targets(opened(STEPS[name]))
    assert target.jumps_in_tf32 and target.bound < 1e-5


def test_where_nothing_jumps_steps_do_not_matter(opened: Opened) -> None:
    (target,) = targets(opened("return torch.max(self.conv(x), 1)[0]"))
    assert target.is_tf32 and target.bound > 1e-4


def test_an_answer_that_tf32_takes_apart_says_nothing(opened: Opened) -> None:
    """Where candidates may have TF32, they are not asked what only fp32 gives."""
    reference, problem = opened("y = self.conv(x); return (y - y.mean((0, 2, 3), keepdim=True)) / (y.std() + 1e-3)")

    def draw(seed: int) -> list[Any]:
        return [x * 0.02 + 1 for x in reference.draw("main", seed)]

    inputs, like = draw(1), usual(draw(1), targets((reference, problem)))
    assert like.in_tf32 == (True,)
    assert not any(target.jumps_in_tf32 for target in targets_of(reference, problem, inputs))
    with pytest.raises(InvalidVariant, match="in TF32"):
        changed(reference, problem, draw, "shifted+shifted", 1, like.error, in_tf32=like.in_tf32)


SWITCHED = {
    "for one convolution": f"with torch.backends.cudnn.flags(enabled=True, allow_tf32=False): {RELU}",
    "by another library": f"with torch.backends.cudnn.flags(enabled=False): {RELU}",
    "by the newer switch": "torch.backends.cudnn.conv.fp32_precision = 'ieee'; " + RELU,
    "in a traced module": "return torch._convolution(x, self.conv.weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], "
    "1, False, False, True, False)",
}


@pytest.fixture
def switches() -> Any:
    before = torch.backends.cudnn.conv.fp32_precision
    yield
    torch.backends.cudnn.conv.fp32_precision = before
    torch.backends.cudnn.rnn.fp32_precision = before


@pytest.mark.parametrize("name", SWITCHED)
def test_a_file_may_forbid_it(opened: Opened, switches: None, name: str) -> None:
    (target,) = targets(opened(SWITCHED[name]))
    assert not target.is_tf32 and target.bound < 1e-5


PERMITTED = {
    "for one convolution": f"with torch.backends.cudnn.flags(enabled=True, allow_tf32=True): {RELU}",
    "in a traced module": "return self.traced(x)",
    "of complex numbers": "return torch.complex(self.conv(x), self.conv(-x))",
    "to a number": "return self.conv(x)[0, 0, 0, 0].item()",
}


@pytest.mark.parametrize("name", PERMITTED)
def test_a_file_may_permit_it(opened: Opened, switches: None, name: str) -> None:
    torch.backends.cudnn.allow_tf32 = name != "for one convolution"
    (target,) = targets(opened(PERMITTED[name]))
    assert target.is_tf32 and target.bound > 3e-6


def test_other_sizes_may_have_convolutions_where_the_first_had_none(opened: Opened) -> None:
    reference, problem = opened("return x * 2 if len(x) < 8 else " + RELU.removeprefix("return "))
    (x,) = reference.draw("main", 1)
    (plain,), (target,) = targets_of(reference, problem, [x[:2]]), targets_of(reference, problem, [x])
    assert not plain.is_tf32 and target.is_tf32


def test_a_bound_does_not_hang_on_memory(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    reference, problem = opened(RELU)
    device = SimpleNamespace(device=torch.device("cpu"), shortages=0, chunk=1 << 17)
    monkeypatch.setattr(other_kernels, "current_device", lambda: device)

    def fails(*arguments: Any) -> None:
        device.shortages += 1
        raise Refused("it does not fit in memory")

    monkeypatch.setattr(other_kernels, "called", fails)
    with pytest.raises(Refused, match="memory"):
        targets((reference, problem))


TOLD = {
    "by default": (RELU, "", True),
    "of a file's tolerance": (RELU, "tolerance = 1e-6", False),
    "of one result that jumps": ("y = self.conv(x); return y, torch.round(y * 127) / 127", "", False),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_search_is_told_whether_tf32_will_do(opened: Opened, name: str) -> None:
    forward, more, is_tf32 = TOLD[name]
    reference, problem = opened(forward, more)
    assert examined(reference, problem, reference.draw("main", 1)).is_tf32 == is_tf32


def test_the_search_is_told_where_the_reference_itself_takes_tf32(opened: Opened) -> None:
    reference, problem = opened(RELU)
    with other_kernels.ConvolutionsInTF32():
        assert examined(reference, problem, reference.draw("main", 1)).is_tf32


@pytest.mark.parametrize(("own", "in_tf32", "counts"), [(1e-9, 1e-6, True), (1e-9, 1e-4, False), (1e-21, 1e-18, False)])
def test_what_is_nothing_but_rounding_is_that_in_tf32_too(own: float, in_tf32: float, counts: bool) -> None:
    """Running means of zero in MobileNetV2: off by 1e-18 in float64, 4e-8 in fp32, 1.6e-6 in TF32. That was refused."""
    generator = torch.Generator().manual_seed(0)
    precise, noise, coarser = (torch.randn(960, dtype=torch.float64, generator=generator) for _ in range(3))
    precise *= 1e-18
    permitted = (precise + in_tf32 * coarser).float()
    target = Target((precise + own * noise).float(), precise, Tolerance(), permitted=permitted)
    assert target.is_tf32 == counts
    assert (target.distance_to(permitted) <= target.bound) == counts


def test_an_error_in_tf32_is_no_more_than_what_it_is() -> None:
    exact = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    usual = Target(exact.float(), exact, Tolerance())
    for share in (0.2, torch.inf, torch.nan):
        target = Target(exact.float(), exact, Tolerance(), permitted=exact.float() * (1 + share))
        assert target.jumps_in_tf32 and target.bound == usual.bound


@pytest.mark.parametrize("name", ["gelu", "relu"])
@torch.no_grad()
def test_gradients_in_tf32_are_right_or_not_asked_for(opened: Opened, name: str) -> None:
    reference, _ = opened(f"return F.{name}(self.conv(x))")
    if name == "relu":
        with pytest.raises(InvalidVariant, match="jump where its convolutions run in TF32"):
            gradient_case(reference, "main", 1)
        return
    arguments, answers, parameters, *_ = gradient_case(reference, "main", 1)
    reference.restart()
    with other_kernels.ConvolutionsInTF32():
        gradients = followed(reference.call, parameters_of(reference.call))(*arguments)
    assert {"conv.weight", "conv.bias"} <= {*parameters}
    assert all(target.accepts(gradient) for target, gradient in zip(answers, gradients, strict=True))
    assert not any(target.accepts(1.1 * gradient) for target, gradient in zip(answers, gradients, strict=True))
