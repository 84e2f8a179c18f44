"""A file that takes another kernel at each timed shape: judged like any candidate, and a drop-in like any other."""

import types

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.dropin.dispatching import dispatching
from kernelswarm.hardware.languages.assembly import language_of
from kernelswarm.hardware.sources.native_source import parts_of
from kernelswarm.schemas import Verdict

from .conftest import Make, verified

PROBLEM = """
import torch

shapes = {"main": dict(rows=64, cols=512), "decode": dict(rows=2, cols=512), "odd": dict(rows=5, cols=33)}
timed = {"main": 3, "decode": 1}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.rand(cols, generator=generator)]

def reference(x, w):
    return torch.relu(x) * w
"""
PLAIN = '''
import torch

class NotSupported(NotImplementedError):
    """Rows of a size that nobody asked for."""

def kernel(x, w):
    """Nothing "quoted\\\\" is lost."""
    if x.shape[0] == 7:
        raise NotSupported("seven rows")
    return torch.relu(x) * w
'''
WRONG_AT_DECODE = "import torch\ndef kernel(x, w):\n    return x * w if x.shape[0] == 2 else torch.relu(x) * w\n"


def loaded(text: str) -> types.ModuleType:
    module = types.ModuleType("dispatching_kernel")
    exec(compile(text, "<dispatching>", "exec"), module.__dict__)
    return module


@pytest.mark.asyncio(loop_scope="session")
async def test_every_shape_gets_its_kernel_and_other_shapes_the_best_one(make: Make) -> None:
    import torch

    facts = (await make(PROBLEM, PLAIN)).facts
    sources = {"a": PLAIN, "b": "def kernel(x, w):\n    return x + 1000\n"}
    module = loaded(dispatching(facts, sources, {"main": "a", "decode": "b"}, "a"))

    w = torch.ones(512)
    assert module.kernel(torch.ones(64, 512), w).max() == 1
    assert module.kernel(torch.ones(2, 512), w).min() == 1001
    assert module.kernel(torch.ones(3, 512), w).max() == 1, "no timed shape"
    assert module.kernel(torch.ones(2, 33), torch.ones(33)).max() == 1, "no timed shape either"
    with pytest.raises(module.NotSupported, match="seven rows"):
        module.kernel(torch.ones(7, 512), w)


@pytest.mark.asyncio(loop_scope="session")
async def test_shapes_that_sizes_do_not_tell_apart_are_not_dispatched(make: Make) -> None:
    text = PROBLEM.replace('"decode": dict(rows=2, cols=512)', '"decode": dict(rows=64, cols=512)')
    facts = (await make(text, PLAIN)).facts

    with pytest.raises(ValueError, match="sizes of another shape's"):
        dispatching(facts, {"a": PLAIN, "b": PLAIN}, {"main": "a", "decode": "b"}, "a")


@pytest.mark.asyncio(loop_scope="session")
async def test_it_is_compiled_judged_and_a_drop_in_with_native_parts(device: Device, make: Make) -> None:
    native = await make(PROBLEM)
    text = dispatching(native.facts, {"a": native.candidate, "b": PLAIN}, {"main": "a", "decode": "b"}, "a")

    assert set(parts_of(text)) == {"a", "b"} and language_of(text, "triton") == "cpp"
    report, artifacts = await device.compile(text, "cpp")
    alone, _ = await device.compile(native.candidate, "cpp")
    assert report.ok and report.artifacts == alone.artifacts and set(artifacts) == {a.sha256 for a in report.artifacts}
    judged = await verified(device, native, text)
    assert judged.verdict is Verdict.correct, judged.evidence
    profile = await device.profile(native.problem, native.facts, text, report)
    assert profile.verdict is Verdict.correct and profile.timing is not None and len(profile.timing.shapes) == 2
    finished = finish(native.problem, native.facts, text, judged)
    assert judged.gradients == "reference" and "'device': 'cpu'" in finished
    properties = await device.contract(finished)
    assert [entry for entry in properties if not entry.ok] == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_part_that_is_wrong_is_found_where_it_computes(device: Device, make: Make) -> None:
    made = await make(PROBLEM, PLAIN)
    text = dispatching(made.facts, {"a": PLAIN, "b": WRONG_AT_DECODE}, {"main": "a", "decode": "b"}, "a")

    judged = await verified(device, made, text)

    assert judged.verdict is Verdict.wrong_numbers and judged.evidence is not None
    assert judged.evidence.shape == "decode"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_part_that_does_not_compile_is_a_compile_error(device: Device, make: Make) -> None:
    made = await make(PROBLEM, PLAIN)
    broken = 'CPP_SOURCE = "no C++"\nCPP_FLAGS = []\n' + PLAIN
    text = dispatching(made.facts, {"a": PLAIN, "b": broken}, {"main": "a", "decode": "b"}, "a")

    report, artifacts = await device.compile(text, "cpp")

    assert not report.ok and report.diagnostics and artifacts == {}


@pytest.mark.asyncio(loop_scope="session")
async def test_parts_that_autograd_differentiates_keep_their_gradients(device: Device, make: Make) -> None:
    made = await make(PROBLEM, PLAIN)
    parts, kernels = {"a": PLAIN, "b": PLAIN.replace("seven", "more")}, {"main": "a", "decode": "b"}
    text = dispatching(made.facts, parts, kernels, "a", differentiable=True)

    judged = await verified(device, made, text)

    assert (judged.verdict, judged.gradients) == (Verdict.correct, "own")
