"""A problem that names one call: a kernel is judged on that call, and its file leaves other ones to the reference."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.harness.inputs.variants import SPARSE_STRIDED, VALUE_VARIANTS
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import CONTIGUOUS, FINITE, ProblemError, Verdict, VerifyReport, limits_text

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODULE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(64, 96)]

def get_init_inputs():
    return []
"""
FUNCTION = """
import torch

shapes = {"main": dict(rows=64, cols=96)}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]

def reference(x):
    return torch.relu(x) * 2
"""
BODIES = {
    "right": ("y = torch.relu(x) * 2", ()),
    "takes pointers as they come": ("y = torch.relu(x.as_strided(x.shape, (x.shape[1], 1))) * 2", (CONTIGUOUS,)),
    "refuses strides": ("assert x.is_contiguous()\n{pad}y = torch.relu(x) * 2", (CONTIGUOUS,)),
    "knows its sizes": ("y = torch.relu(x) * 2\n{pad}y[:, 90:] *= x.shape[1] / 96", ()),
    "forgets NaN": ("y = torch.fmax(x, torch.zeros(())) * 2", (FINITE,)),
}


def _module(body: str) -> str:
    pad = " " * 8
    return (
        f"import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n{pad}{body.format(pad=pad)}\n"
        f"{pad}return y\n"
    )


async def _verified(device: Device, folder: Path, problem: str, candidate: str) -> tuple[VerifyReport, str]:
    path = folder / "problem.py"
    path.write_text(problem)
    loaded = load_problem(path)
    try:
        facts = await device.validate_problem(loaded)
        compiled, _ = await device.compile(candidate, "cpp")
        report = await device.verify(loaded, candidate, compiled)
        return report, finish(loaded, facts, candidate, report)
    finally:
        await device.forget(loaded)


@pytest.mark.parametrize("name", BODIES)
async def test_what_is_right_for_the_call_alone_is_limited_to_it(device: Device, tmp_path: Path, name: str) -> None:
    body, limits = BODIES[name]

    report, text = await _verified(device, tmp_path, MODULE, _module(body))

    assert report.verdict is Verdict.correct and set(report.limits) == set(limits), report.evidence
    path = tmp_path / "best.py"
    path.write_text(text)
    names: dict[str, Any] = runpy.run_path(str(path), run_name="best")
    model, reference = names["ModelNew"](), torch.nn.ReLU()
    for x in (torch.randn(64, 96), torch.randn(96, 64).t(), torch.randn(70, 101), torch.randn(101, 70).t()):
        with torch.no_grad():
            torch.testing.assert_close(model(x), reference(x) * 2)


LARGE = {
    "takes pointers as they come": (CONTIGUOUS,),
    "forgets NaN": (FINITE,),
    "right": (),
}
"""At sizes where strides and numbers that are not finite share a case, a kernel has the limit that is its own."""


@pytest.mark.parametrize("name", LARGE)
async def test_large_inputs_tell_strides_from_infinities(device: Device, tmp_path: Path, name: str) -> None:
    body, _ = BODIES[name]
    report, _ = await _verified(device, tmp_path, MODULE.replace("64, 96", "2400, 2400"), _module(body))
    assert report.verdict is Verdict.correct and set(report.limits) == set(LARGE[name]), report.evidence
    assert SPARSE_STRIDED in {case.inputs for case in report.cases}


@pytest.mark.parametrize(
    ("body", "what"), [("takes pointers as they come", "strided"), ("forgets NaN", "NaN"), ("right", "")]
)
async def test_a_draft_is_checked_on_strides_and_numbers_that_are_not_finite(
    device: Device, tmp_path: Path, body: str, what: str
) -> None:
    path = tmp_path / "problem.py"
    path.write_text(FUNCTION)
    loaded = load_problem(path)
    candidate = "import torch\n\ndef kernel(x):\n    " + BODIES[body][0] + "\n    return y\n"
    try:
        facts = await device.validate_problem(loaded)
        compiled, _ = await device.compile(candidate, "cpp")
        draft = await device.check(loaded, facts, candidate, compiled)
        judged = await device.verify(loaded, candidate, compiled)
    finally:
        await device.forget(loaded)
    assert (draft.verdict is Verdict.correct) == (not what) == (judged.verdict is Verdict.correct), draft.evidence
    assert what in (draft.evidence.message if draft.evidence else "")
    if not what:
        tried = {case.inputs for case in judged.cases}
        assert {*VALUE_VARIANTS, "strided"} <= tried, "what drafts are tried on takes nothing from the judge"


@pytest.mark.parametrize("name", ["takes pointers as they come", "refuses strides", "forgets NaN"])
async def test_a_draft_has_the_limits_that_the_judge_gives_it(device: Device, tmp_path: Path, name: str) -> None:
    path = tmp_path / "problem.py"
    path.write_text(MODULE)
    loaded = load_problem(path)
    body, limits = BODIES[name]
    try:
        facts = await device.validate_problem(loaded)
        compiled, _ = await device.compile(_module(body), "cpp")
        draft = await device.check(loaded, facts, _module(body), compiled)
    finally:
        await device.forget(loaded)
    assert draft.verdict is Verdict.correct and draft.limits == limits, draft.evidence


async def test_wrong_numbers_for_the_call_itself_convict(device: Device, tmp_path: Path) -> None:
    report, _ = await _verified(device, tmp_path, MODULE, _module("y = torch.relu(x) * 2\n{pad}y[3, 5] += 1e-3"))

    assert report.verdict is Verdict.wrong_numbers and not report.limits


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (
            "if not x.isfinite().all():\n{pad}    raise ValueError('NaN')\n{pad}y = torch.relu(x) * 2",
            Verdict.runtime_error,
        ),
        ("y = torch.relu(x) * 2\n{pad}y[x.abs() < 1e-38] = 1", Verdict.wrong_numbers),
    ],
    ids=["raises on NaN", "wrong on denormal numbers"],
)
async def test_what_the_finished_file_would_have_too_convicts(
    device: Device, tmp_path: Path, body: str, verdict: Verdict
) -> None:
    report, _ = await _verified(device, tmp_path, MODULE, _module(body))

    assert report.verdict is verdict and not report.limits, report.evidence


async def test_a_limit_to_finite_answers_leaves_those_to_be_right(device: Device, tmp_path: Path) -> None:
    """Of 16 MiB a call: denormal numbers, infinities and NaN come in one case."""
    body = "y = torch.fmax(x, torch.zeros(())) * 2\n{pad}y[x.abs() < 1e-38] = 1"

    report, _ = await _verified(device, tmp_path, MODULE.replace("64, 96", "1024, 2048"), _module(body))

    assert report.verdict is Verdict.wrong_numbers and report.evidence is not None
    assert report.evidence.inputs == "tiny+infinite+nan" and float(report.evidence.expected) < 1e-38


async def test_a_function_is_asked_for_every_layout_and_size(device: Device, tmp_path: Path) -> None:
    kernel = "import torch\n\ndef kernel(x):\n    return torch.relu(x.as_strided(x.shape, (x.shape[1], 1))) * 2\n"

    report, _ = await _verified(device, tmp_path, FUNCTION, kernel)

    assert report.verdict is Verdict.wrong_numbers and not report.limits


async def test_inputs_that_are_not_contiguous_are_no_limit(device: Device, tmp_path: Path) -> None:
    """The finished file would never call the kernel."""
    transposed = MODULE.replace("torch.randn(64, 96)", "torch.randn(96, 64).t()")
    body = "assert x.stride() == (1, 64)\n{pad}y = torch.relu(x) * 2"

    report, _ = await _verified(device, tmp_path, transposed, _module(body))

    assert report.verdict is Verdict.runtime_error and not report.limits


async def test_limits_are_a_sentence() -> None:
    assert limits_text((CONTIGUOUS, FINITE)).startswith("right only for contiguous inputs: as a drop-in it leaves")


LOSS = """
import torch
import torch.nn.functional as F

shapes = {"main": dict(rows=64, cols=96), "odd": dict(rows=33, cols=7)}
backward = True

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator) * 3, torch.randint(0, 2, (rows, cols), generator=generator)]

def reference(x, target):
    p, t = torch.sigmoid(x), target.to(x.dtype)
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return (loss * (1 - (p * t + (1 - p) * (1 - t)))).mean()
"""
STABLE = """
import torch
import torch.nn.functional as F

def kernel(x, target):
    z = torch.where(target == 1, x, -x)
    return (F.softplus(-z) * torch.sigmoid(-z)).mean()
"""
FINITE_INPUTS = LOSS.replace("backward = True", "backward = True\nfinite_inputs = True")


async def test_zero_where_the_reference_gives_nan_is_not_unwritten(device: Device, tmp_path: Path) -> None:
    """A gradient of a stable form: the numbers are there, and the evidence says what they are."""
    report, _ = await _verified(device, tmp_path, LOSS, STABLE)

    assert report.verdict is Verdict.wrong_numbers and report.evidence is not None
    message = report.evidence.message
    assert report.evidence.expected == "nan" and report.evidence.inputs == "infinite"
    assert "the gradient of x[" in message and "] is " in message and "expected nan" in message, message
    assert "elements that are finite where the reference is not" in message and "never written" not in message
    assert "on infinite inputs; if its inputs are always finite, set `finite_inputs = True`" in message


async def test_a_problem_may_say_that_its_inputs_are_finite(device: Device, tmp_path: Path) -> None:
    report, text = await _verified(device, tmp_path, FINITE_INPUTS, STABLE)

    assert report.verdict is Verdict.correct and report.limits == (FINITE,), report.evidence
    kinds = {case.inputs for case in report.cases}
    assert not kinds & {"infinite", "nan"} and {"tiny", "heavy_tailed", "strided"} <= kinds
    assert "finite_inputs = True" in text


@pytest.mark.parametrize(
    "change",
    [
        ("torch.sigmoid(-z))", "torch.sigmoid(-z)).where(z.abs() < 30, 0)"),
        ("z = torch.where(target == 1, x, -x)", "z = torch.where(target == 1, x, -x) * 1.00001"),
    ],
    ids=["zero for large numbers", "a little off"],
)
async def test_wrong_on_finite_inputs_is_wrong_there(device: Device, tmp_path: Path, change: tuple[str, str]) -> None:
    report, _ = await _verified(device, tmp_path, FINITE_INPUTS, STABLE.replace(*change))

    assert report.verdict is Verdict.wrong_numbers, report


async def test_denormal_numbers_are_judged_where_they_would_share_a_case_with_infinities(
    device: Device, tmp_path: Path
) -> None:
    problem = "finite_inputs = True\n" + MODULE.replace("64, 96", "1024, 2048")

    report, _ = await _verified(
        device, tmp_path, problem, _module("y = torch.relu(x) * 2\n{pad}y[x.abs() < 1e-38] = 1")
    )

    assert report.verdict is Verdict.wrong_numbers and report.evidence is not None and report.evidence.inputs == "tiny"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("finite_inputs = 1", "`finite_inputs` is a int; set it to True to have kernels judged on finite inputs alone"),
        ("finite_inputs = True", "sets `finite_inputs`, but its input x has numbers that are not finite"),
    ],
)
async def test_what_is_no_such_declaration_is_refused(
    device: Device, tmp_path: Path, declared: str, message: str
) -> None:
    path = tmp_path / "problem.py"
    drawn = "torch.randn(rows, cols, generator=generator)"
    path.write_text(f"{declared}\n{FUNCTION.replace(drawn, drawn + '.log()')}")
    with pytest.raises(ProblemError, match=re.escape(message)):
        await device.validate_problem(load_problem(path))


async def test_a_computed_largest_integer_is_not_unwritten(device: Device, tmp_path: Path) -> None:
    problem = FUNCTION.replace("torch.relu(x) * 2", "x.argmax(-1)")
    kernel = "import torch\n\ndef kernel(x):\n    y = x.argmax(-1)\n    y[3] = 2**63 - 1\n    return y\n"

    report, _ = await _verified(device, tmp_path, problem, kernel)

    assert report.verdict is Verdict.wrong_numbers, report.evidence
