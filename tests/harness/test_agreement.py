"""The judge says the same of a kernel whatever it draws."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
import torch

sys.path.insert(0, str(Path(__file__).parent))
from conftest import HARDWARE, POOL, problem_from

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.judging import verify
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.harness.messages.commands import Compared, Open, Values
from kernelswarm.hardware.harness.redraws import DRAWS, Draw, decided
from kernelswarm.hardware.harness.reference import validity
from kernelswarm.hardware.harness.reference.derived import derive
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.harness.reference.validity import InvalidVariant, changed
from kernelswarm.hardware.harness.reference_process import Case, ReferenceProcess
from kernelswarm.hardware.harness.tensors.bounds import SHAKES, is_steady
from kernelswarm.hardware.harness.tensors.compare import Target
from kernelswarm.schemas import ProblemFormat, Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRETS = ("one", "two", "three", "four", "five", "six")

DEVIATION = """
import torch
shapes = {"main": dict(rows=32, cols=1000), "ragged": dict(rows=37, cols=900)}
def inputs(generator, rows, cols): return [torch.randn(rows, cols, generator=generator)]
def reference(x): return x.std(-1)
"""
FROM_THE_FIRST = """
def kernel(x):
    x = x - x[:, :1]
    count = x.shape[-1]
    return ((x.square().sum(-1) - x.sum(-1).square() / count).clamp(min=0) / (count - 1)).sqrt()
"""
FROM_THE_MEAN = """
def kernel(x):
    x = x - x.mean(-1, keepdim=True)
    return (x.square().sum(-1) / (x.shape[-1] - 1)).sqrt()
"""

VerifyWith = Callable[[str, str], Awaitable[VerifyReport]]


def _case(kind: str) -> Case:
    return Case(0, "main", 1, Values(items=(), size=64), -1, (), kind)


def _draw(share: float, kind: str = "tiny", slot: int = 0) -> Draw:
    result = Compared(ok=share <= 1, error=share * 2e-6, reference_error=0.0, bound=2e-6)
    return Draw(slot, _case(kind), (), result)


async def _decided(*shares: float, kind: str = "tiny") -> tuple[bool, str]:
    """Whether a candidate passes whose draws have these errors in units of the bound, and what the evidence says."""

    async def further(slot: int) -> Draw | None:
        return _draw(shares[slot], kind, slot)

    draw, text = await decided(_draw(shares[0], kind), further)
    return draw.result.ok, text


async def test_an_error_beside_the_bound_is_decided_by_most_draws() -> None:
    assert await _decided(1.3, 0.4, 0.5, 0.3) == (True, "failed on 1 of 4 draws")
    assert await _decided(1.3, 1.2, 0.9, 0.9, 1.1) == (False, "failed on 3 of 5 draws")
    assert await _decided(0.9, 1.2, 1.2, 1.2) == (False, "failed on 3 of 4 draws")


async def test_a_kernel_that_is_wrong_on_every_draw_stays_wrong() -> None:
    assert await _decided(1.01, 1.01, 1.01) == (False, "failed on 3 of 3 draws")


@pytest.mark.parametrize(("share", "passes"), [(0.4, True), (2.1, False)])
async def test_an_error_far_from_the_bound_decides_alone(share: float, passes: bool) -> None:
    assert await _decided(share) == (passes, "")


@pytest.mark.parametrize("kind", ["normal", "strided", "held_out"])
async def test_there_is_no_second_chance_on_the_problems_own_values(kind: str) -> None:
    assert await _decided(1.01, kind=kind) == (False, "")


async def test_the_draw_that_explains_a_failure_is_one_that_failed() -> None:
    async def further(slot: int) -> Draw | None:
        return _draw(1.5, slot=slot)

    draw, _ = await decided(_draw(0.9), further)

    assert draw.slot == 1 and not draw.result.ok


async def test_draws_on_which_the_reference_means_nothing_do_not_count() -> None:
    async def further(slot: int) -> Draw | None:
        return None if slot < DRAWS - 1 else _draw(1.2, slot=slot)

    assert (await decided(_draw(1.1), further))[1] == "failed on 2 of 2 draws"


@pytest.mark.parametrize("kind", ["heavy_tailed", "ill_conditioned"])
async def test_on_every_draw_an_outlier_comes_first(kind: str) -> None:
    for seed in range(20):
        x = torch.randn(12, 64, generator=torch.Generator().manual_seed(seed))
        (tensor,) = derive([x], kind, seed) or []
        distance = (tensor - tensor.mean())[::2].abs()
        assert bool((distance[:, 0] >= 0.98 * distance.amax(-1)).all())


async def test_movements_that_differ_too_much_determine_no_bound() -> None:
    assert is_steady("float32", [3e-7] * SHAKES)
    assert not is_steady("float32", [3e-7] * (SHAKES - 1) + [3e-6])
    assert is_steady("float32", [1e-9] * (SHAKES - 1) + [1e-7]), "too small to raise the bound"


async def test_a_draw_without_a_meaning_is_drawn_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    problem = Open(name="edge", format=ProblemFormat.function, source=DEVIATION, seed=1)
    reference = open_reference(problem)
    drawn: list[int] = []
    doubts = iter(["its error is 1", "", ""])
    monkeypatch.setattr(Target, "doubt", lambda self, *, may_be_nan, usual: next(doubts))

    def draw(seed: int) -> list[torch.Tensor]:
        drawn.append(seed)
        inputs: list[torch.Tensor] = reference.draw("ragged", seed)
        return inputs

    changed(reference, problem, draw, "tiny", 7, 0.0)

    assert drawn == [7, 8]


async def test_draws_without_a_meaning_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # the module is written into the working folder, as in a child's scratch
    problem = Open(name="edge", format=ProblemFormat.function, source=DEVIATION, seed=1)
    reference = open_reference(problem)
    drawn: list[int] = []
    monkeypatch.setattr(Target, "doubt", lambda self, *, may_be_nan, usual: "its error is 1")

    def draw(seed: int) -> list[torch.Tensor]:
        drawn.append(seed)
        inputs: list[torch.Tensor] = reference.draw("ragged", seed)
        return inputs

    with pytest.raises(InvalidVariant, match="its error is 1"):
        changed(reference, problem, draw, "tiny", 7, 0.0)

    assert len(drawn) == validity.DRAWS


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def verify_with(device: Device, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VerifyWith]:
    home = tmp_path_factory.mktemp("home")
    problem = problem_from(home, DEVIATION, "deviation")
    launcher = Launcher(POOL, HARDWARE, home)

    async def verify_with(secret: str, source: str) -> VerifyReport:
        compiled, _ = await device.compile(source, "cpp")
        host = ReferenceProcess(launcher, problem, secret)
        try:
            return await verify(launcher, host, problem, source, compiled, POOL.candidate_seconds)
        finally:
            await host.close()

    yield verify_with
    await launcher.close()


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_variance_from_the_first_number_is_always_refused(verify_with: VerifyWith, secret: str) -> None:
    """It was found out on one draw of five: where the first number of a row happened to be an outlier."""
    report = await verify_with(secret, FROM_THE_FIRST)

    assert report.verdict is Verdict.wrong_numbers, report.cases
    assert report.evidence is not None and report.evidence.inputs in ("heavy_tailed", "ill_conditioned")


@pytest.mark.parametrize("secret", SECRETS[:3])
async def test_a_variance_from_the_mean_is_always_right(verify_with: VerifyWith, secret: str) -> None:
    report = await verify_with(secret, FROM_THE_MEAN)

    assert report.verdict is Verdict.correct, report.evidence
