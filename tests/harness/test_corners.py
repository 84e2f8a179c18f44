"""A right kernel may take the other side of a corner where rounding decides; whoever takes a wrong side is wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cheats import SUITES

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference import gradients
from kernelswarm.hardware.harness.reference.corners import explaining
from kernelswarm.hardware.harness.reference.gradients import LOOKED_AT_BYTES, followed, gradient_case
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import ProblemFormat, Verdict

SOURCE = """
import torch
from torch.nn import functional as F
shapes = {"main": dict(rows=48, cols=640)}
def inputs(generator, rows, cols):
    x = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    hidden = cols * 4 // 5
    w = torch.randn(cols, hidden, generator=generator, dtype=torch.float64) / cols**0.5
    v = torch.randn(hidden, 32, generator=generator) / hidden**0.5
    first = w[:, 0].float().double()
    x[:3] -= torch.outer(x[:3] @ first / (first @ first), first)
    return [x.float(), w.float(), v]
def reference(x, w, v):
    y = x @ w
    return (ACTIVATION) @ v
"""
ACTIVATIONS = {
    "relu": "F.relu(y)",
    "in_place": "F.relu(y, inplace=True)",
    "abs": "y.abs()",
    "clamp": "y.clamp(0, 1)",
    "leaky_relu": "F.leaky_relu(y, 0.1)",
    "hardtanh": "F.hardtanh(y, 0.0, 1.0)",
    "hardswish": "F.hardswish(y - 3)",
    "maximum": "torch.maximum(y, 0.5 * y)",
    "max": "torch.stack([y, -y]).max(0).values",
    "max_pool": "F.max_pool1d(torch.stack([y, -y], -1), 2).squeeze(-1)",
    "where": "torch.where(y > 0, y, y * 0.2)",
}


def reordered(activation: str, change: str = "y = x.flip(-1) @ w.flip(0)") -> str:
    """A kernel that sums in another order."""
    head = "import torch\nfrom torch.nn import functional as F\n"
    return f"{head}def kernel(x, w, v):\n    {change}\n    return ({ACTIVATIONS[activation]}) @ v\n"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_each_side_is_right_and_nothing_else(activation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A problem of a sixteenth of the size goes the way of large ones: a run in float64 for each corner takes its time.
    monkeypatch.setattr(gradients, "LOOKED_AT_BYTES", LOOKED_AT_BYTES >> 4)
    source = SOURCE.replace("ACTIVATION", ACTIVATIONS[activation]).replace("cols=640", "cols=160")
    reference = open_reference(Open(name="p", source=source, format=ProblemFormat.function, seed=1))
    kernel: dict[str, object] = {}
    exec(reordered(activation), kernel)
    explained = 0
    for seed in range(1, 4):
        arguments, targets, _, _, sides = gradient_case(reference, "main", seed)
        assert sum(leaf.nbytes for leaf in arguments[:3]) > gradients.LOOKED_AT_BYTES and sides is not None
        assert max(target.bound for target in targets) < 1e-3

        def worst(answers: list[torch.Tensor], right: list = targets) -> float:
            return max(target.distance_of(answer) for target, answer in zip(right, answers, strict=True))

        right = followed(kernel["kernel"], {})(*arguments)
        if worst(right) > 1:
            explained += 1
            assert worst(right, sides.explain(right) or targets) < 1
        for wrong in wrong_gradients(right):
            assert worst(wrong, sides.explain(wrong) or targets) > 1
    assert explained


def wrong_gradients(right: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    zero = [torch.zeros_like(gradient) for gradient in right]
    scaled = [gradient * 1.01 for gradient in right]
    generator = torch.Generator().manual_seed(1)
    some = [torch.where(torch.rand(gradient.shape, generator=generator) < 0.01, 0, gradient) for gradient in right]
    single = [gradient.clone() for gradient in right]
    single[0][7, 3] += 0.01
    return [zero, scaled, some, single]


NOTHING_ELSE = """
import torch
shapes = {"main": dict(rows=4)}
def inputs(generator, rows):
    x = torch.randn(rows, 640, generator=generator, dtype=torch.float64)
    w = torch.randn(640, generator=generator, dtype=torch.float64)
    w = w.float().double()
    x -= torch.outer(x @ w / (w @ w), w)
    x[1:] -= w
    return [x.float(), w.float(), torch.randn(rows, 64, generator=generator)]
def reference(x, w, z):
    return torch.relu(x @ w)[:, None] + torch.relu(z)
"""


def test_gradients_that_are_all_zero_on_one_side_are_right_on_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reference = open_reference(Open(name="p", source=NOTHING_ELSE, format=ProblemFormat.function, seed=1))

    def on_side(side: float) -> Callable[..., torch.Tensor]:
        def kernel(x: torch.Tensor, w: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            y = x @ w
            y = torch.where(y.abs() < 1e-5, y - y.detach() + side, y)
            return torch.relu(y)[:, None] + torch.relu(z)

        return kernel

    explained = 0
    for seed in range(1, 5):
        arguments, targets, _, _, sides = gradient_case(reference, "main", seed)
        for side in (-1e-9, 1e-9):
            answers = followed(on_side(side), {})(*arguments)
            right = targets
            if any(target.distance_of(answer) > 1 for target, answer in zip(targets, answers, strict=True)):
                assert sides is not None
                explained += 1
                right = sides.explain(answers) or targets
            assert all(target.distance_of(answer) <= 1 for target, answer in zip(right, answers, strict=True))
    assert explained


def test_a_corner_that_does_nothing_explains_nothing() -> None:
    """A maximum behind a ReLU that is off: with the ReLU on, its other place would be wrong."""
    effects = torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    assert explaining(effects @ effects.T, effects @ torch.tensor([1.0, 2.0], dtype=torch.float64)) == {1}


def test_a_maximum_behind_a_relu_may_be_on_each_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gradients, "LOOKED_AT_BYTES", LOOKED_AT_BYTES >> 4)
    suite = SUITES["corners"]
    source = suite.problem.read_text().replace("cols=640", "cols=160")
    reference = open_reference(Open(name="p", source=source, format=ProblemFormat.function, seed=1))
    kernel: dict[str, object] = {}
    exec(suite.path("honest_corners").read_text(), kernel)
    for seed in range(1, 13):
        arguments, targets, _, _, sides = gradient_case(reference, "small", seed)
        assert sides is not None
        answers = followed(kernel["kernel"], {})(*arguments)
        for right in (targets, sides.explain(answers)):
            if right and all(target.distance_of(answer) <= 1 for target, answer in zip(right, answers, strict=True)):
                break
        else:
            pytest.fail(f"no side explains it at seed {seed}")


WRONG_SIDES = """y = x.flip(-1) @ w.flip(0)
    wrong = torch.rand(y.shape, generator=torch.Generator().manual_seed(1)) < 0.01
    y = torch.where(wrong, y.detach(), y)"""


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("y = x.flip(-1) @ w.flip(0)", Verdict.correct),
        ("y = x[:, :100] @ w[:100] + x[:, 100:] @ w[100:]", Verdict.correct),
        (WRONG_SIDES, Verdict.wrong_gradients),
        ("y = x @ w.detach()", Verdict.wrong_gradients),
    ],
)
@pytest.mark.asyncio(loop_scope="session")
async def test_a_large_problem_has_its_gradients_judged(
    device: Device, tmp_path: Path, change: str, verdict: Verdict
) -> None:
    path = tmp_path / "problem.py"
    path.write_text(SOURCE.replace("ACTIVATION", ACTIVATIONS["relu"]))
    kernel = reordered("relu", change)
    compiled, _ = await device.compile(kernel, "cpp")
    report = await device.verify(load_problem(path), kernel, compiled)
    assert (report.verdict, report.gradients) == (verdict, "own" if verdict is Verdict.correct else "")
