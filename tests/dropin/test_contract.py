"""Finished files behave like their references: of the generator's drafts, and of modules from elsewhere."""

import asyncio
import gc
import importlib
import json
import subprocess
import sys
import weakref
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from foreign import MODULES, holding
from msgspec.structs import replace

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import contract as contract_module
from kernelswarm.hardware.dropin import finish, properties
from kernelswarm.hardware.dropin.comparing import error_of
from kernelswarm.hardware.dropin.contract import KERNEL_USED, SWITCHES, InTF32, _Contract
from kernelswarm.hardware.dropin.properties import ESSENTIAL, PROPERTIES
from kernelswarm.hardware.dropin.selfcheck import Carried
from kernelswarm.hardware.dropin.sides import Side
from kernelswarm.hardware.harness.reference import other_kernels
from kernelswarm.hardware.harness.reference.other_kernels import ConvolutionsInTF32
from kernelswarm.schemas import StateFact, Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHIPPED = Path(__file__).parents[2] / "problems"
PROBLEMS = sorted(path for path in SHIPPED.glob("*.py") if path.stem != "__init__" and not path.stem.endswith("_half"))
"""Those in half precision are their twins' programs in another type, and take a minute each."""
ALWAYS = {"mapid", "rmsnorm"}
"""One of every kind; the others take ten to thirty seconds each."""
STATE = {
    "ema": (StateFact(name="mean", kind="buffer"), StateFact(name="steps", kind="attribute")),
    "norm": tuple(
        StateFact(name=f"inner.{name}", kind="buffer")
        for name in ("running_mean", "running_var", "num_batches_tracked")
    ),
}


def problem(name: str) -> str:
    return MODULES[name]


def copy_of(source: str) -> str:
    """A candidate that computes as the reference does, state and gradients included."""
    return source.replace("class Model(", "class ModelNew(")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=() if path.stem in ALWAYS else pytest.mark.thorough) for path in PROBLEMS],
)
async def test_drafts_for_shipped_problems(device: Device, make, path: Path) -> None:
    made = await make(path)
    properties = await device.contract(made.text)
    assert [entry.name for entry in properties] == [*PROPERTIES, SWITCHES, KERNEL_USED]
    assert [entry for entry in properties if not entry.ok] == []
    assert all(entry.applies for entry in properties if entry.name in ("outputs", "state"))


@pytest.mark.parametrize("name", MODULES)
async def test_modules_from_elsewhere(device: Device, make, name: str) -> None:
    made = await make(problem(name), copy_of(problem(name)))
    facts = replace(made.facts, state=made.facts.state or STATE.get(name, ()))
    properties = await device.contract(finish(made.problem, facts, made.candidate))
    assert [entry for entry in properties if not entry.ok] == []
    assert all(entry.applies for entry in properties if entry.name in ESSENTIAL)


@pytest.mark.parametrize(
    ("layer", "more"),
    [
        ("nn.utils.weight_norm(nn.Conv1d(6, 8, 3))", ""),
        ("nn.utils.spectral_norm(nn.Conv1d(6, 8, 3))", "self.eval()"),
        ("nn.utils.prune.l1_unstructured(nn.Conv1d(6, 8, 3), 'weight', 0.5)", ""),
    ],
)
async def test_weights_that_hooks_make_of_others_are_made_for_the_kernel_too(
    device: Device, make, layer: str, more: str
) -> None:
    """The reference computed every call of such a module."""
    text = holding(layer, "[torch.randn(2, 6, 9)]", more=more).replace("\n", "\nimport torch.nn.utils.prune\n", 1)
    made = await make(text, copy_of(text))
    assert [entry for entry in await device.contract(made.text) if not entry.ok] == []


@pytest.mark.parametrize("name", ["mlp", "se", "attention"])
async def test_own_gradients_of_modules_from_elsewhere(device: Device, make, name: str) -> None:
    made = await make(
        problem(name), copy_of(problem(name)), VerifyReport(verdict=Verdict.correct, isolation="", gradients="own")
    )
    assert [entry for entry in await device.contract(made.text) if not entry.ok] == []


FAULTS = {
    "state": ("self.steps += 1", "pass", "state"),
    "buffer": ("self.mean = 0.9 * self.mean", "self.mean = 0.8 * self.mean", "state"),
    "numbers": ("return y * self.scale", "return y * self.scale * 1.01", "outputs"),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_fault_is_found_and_named(device: Device, make, kind: str) -> None:
    right, wrong, name = FAULTS[kind]
    made = await make(problem("ema"), copy_of(problem("ema")).replace(right, wrong))
    facts = replace(made.facts, state=STATE["ema"])
    properties = await device.contract(finish(made.problem, facts, made.candidate))
    assert name in [entry.name for entry in properties if not entry.ok]


CLOSURE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = up = torch.nn.Linear(24, 24)
        self.body = lambda x: torch.relu(up(x))

    def forward(self, x):
        return x + self.body(x)

def get_inputs(): return [torch.randn(16, 24)]
"""


async def test_a_module_may_close_over_a_part_of_itself(device: Device, make) -> None:
    made = await make(CLOSURE)
    properties = await device.contract(made.text)
    # A copy of the reference goes on to use the original's part.
    assert [entry.name for entry in properties if not entry.ok] == ["deepcopy"]


async def test_a_file_that_ends_its_process_is_no_drop_in(device: Device, make) -> None:
    candidate = "import os\nos._exit(0)\n"
    made = await make(problem("mlp"), candidate)
    properties = await device.contract(made.text)
    assert [entry.is_essential for entry in properties if not entry.ok] == [True]
    assert "its process ended" in properties[0].detail


async def test_a_file_may_use_the_newer_switches_of_torch(device: Device, make) -> None:
    source = f"import torch\ntorch.backends.cudnn.conv.fp32_precision = 'ieee'\n{problem('se')}"
    made = await make(source, copy_of(problem("se")))
    properties = await device.contract(made.text)
    assert [entry for entry in properties if not entry.ok] == []


async def test_it_is_a_program(make, tmp_path: Path) -> None:
    made = await make(problem("se"), copy_of(problem("se")))
    path = tmp_path / "best.py"
    path.write_text(made.text)
    command = [sys.executable, "-m", "kernelswarm.hardware.dropin.contract", str(path), "--json"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {entry["name"] for entry in json.loads(done.stdout)} == {*PROPERTIES, SWITCHES, KERNEL_USED}


async def test_where_convolutions_run_in_tf32_gradients_may_err_as_the_references_do() -> None:
    contract = object.__new__(_Contract)
    contract._carried = SimpleNamespace(tolerance=lambda expected: 1e-4)  # type: ignore[assignment]
    right, precise = torch.ones(4), torch.full((4,), 1.001)
    assert contract._difference([right], [right * 1.003]) != ""
    assert contract._difference([right], [right * 1.003], [[precise]]) == ""
    assert contract._difference([right], [right * 1.02], [[precise]]) != ""
    unknown = [torch.full((4,), float("nan"))]
    assert contract._difference([right], [right * 1.003], [unknown]) != "", "an error that is no number allows nothing"


def side_of(call: object, rows: int = 8) -> Side:
    return Side(call=call, inputs=[torch.randn(rows, 4), torch.randn(4)], has_state=False, reimported=lambda data: None)


async def test_an_error_in_a_thread_is_the_propertys() -> None:
    def fail(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("8.00 GiB")

    with pytest.raises(torch.OutOfMemoryError, match=r"8\.00 GiB"):
        PROPERTIES["threads"](side_of(fail))
    unready = side_of(torch.add)
    unready.inputs = [torch.ones(2, dtype=torch.int64), None]  # nobody comes to the barrier
    unready.changed = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(TypeError):
        PROPERTIES["threads"](unready)


async def test_threads_that_ran_out_of_memory_keep_none() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def fail(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        held.append(weakref.ref(x))
        raise torch.OutOfMemoryError("8.00 GiB")

    gc.disable()
    try:
        with suppress(torch.OutOfMemoryError):
            PROPERTIES["threads"](side_of(fail))
        assert held and not any(reference() is not None for reference in held)
    finally:
        gc.enable()


async def test_of_large_inputs_few_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(PROPERTIES["threads"](side_of(torch.add))) == 4
    monkeypatch.setattr(properties, "LARGE", 8)
    assert len(PROPERTIES["threads"](side_of(torch.add))) == 2
    assert [leaf.shape for leaf in side_of(torch.add).first_rows(1)] == [(1, 4), (4,)]


async def test_what_is_expected_makes_room_for_the_answer(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "second_time.py").write_text((await make(problem("se"), copy_of(problem("se")))).text)
    contract = _Contract("second_time", nullcontext)
    calls = []

    def short(side: Side) -> torch.Tensor:
        calls.append(side)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return side.call(*side.inputs)

    monkeypatch.setitem(PROPERTIES, "outputs", short)
    checked = contract.check("outputs")
    assert not checked.ok and "CUDA out of memory" in checked.detail, "in main memory there is no room to make"
    calls.clear()
    monkeypatch.setattr(contract_module, "_is_on_device", lambda leaf: True)
    checked = contract.check("outputs")
    assert checked.ok and checked.applies and len(calls) == 3


ZERO_MEAN = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.BatchNorm2d(16)
        self.conv = nn.Conv2d(16, 16, 1, bias=False)
        self.after = nn.BatchNorm2d(16, momentum=0.1)

    def forward(self, x):
        return self.after(self.conv(self.before(x)))

def get_inputs(): return [torch.randn(4, 16, 12, 12)]
def get_init_inputs(): return []
"""
"""What a batch norm keeps of a convolution of another's output: a mean that is zero but for rounding."""
OTHERWISE = "nn.functional.conv2d(self.before(x).flip(1), self.conv.weight.flip(1))"
ROUNDED = """
def rounded(tensor):
    bits = tensor.detach().clone().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
"""


async def test_a_mean_that_is_nothing_but_rounding_may_be_rounded_otherwise(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    right = copy_of(ZERO_MEAN).replace("self.conv(self.before(x))", OTHERWISE)
    shifted = right.replace("return self.after(", "self.after.running_mean.add_(1e-6)\n        return self.after(")
    for name, candidate, what in (("rounded_otherwise", right, []), ("shifted", shifted, ["after.running_mean"])):
        (tmp_path / f"{name}.py").write_text((await make(ZERO_MEAN, candidate)).text)
        contract = _Contract(name, nullcontext)
        reference, drop_in = contract._side(0), contract._side(1)
        with torch.no_grad():
            reference.call(*reference.inputs), drop_in.call(*drop_in.inputs)
        means = [side.call.after.running_mean for side in (reference, drop_in)]
        assert error_of(*means) > 0.1
        assert ("errs by" in contract.check("state").detail) == bool(what)
        checks = [check["what"] for check in contract._carried.checks("main") if not check["ok"]]
        assert checks == [f"state {path}" for path in what]


async def test_a_mean_that_is_nothing_but_rounding_may_be_that_of_tf32(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_kernels, "HOST", "another device")
    monkeypatch.syspath_prepend(str(tmp_path))
    conv = "nn.functional.conv2d(rounded(self.before(x)), rounded(self.conv.weight))"
    right = copy_of(ZERO_MEAN).replace("self.conv(self.before(x))", conv) + ROUNDED

    async def difference(candidate: str, name: str, in_tf32: InTF32) -> str:
        (tmp_path / f"{name}.py").write_text((await make(ZERO_MEAN, candidate)).text)
        contract = _Contract(name, in_tf32)
        contract._carried.device = "cpu:0"
        return contract.check("state").detail

    assert "errs by" in await difference(right, "held_to_fp32", nullcontext)
    assert await difference(right, "held_to_tf32", ConvolutionsInTF32) == ""
    carried = Carried(vars(importlib.import_module("held_to_tf32")))
    assert "state after.running_mean" in [check["what"] for check in carried.checks("main") if not check["ok"]]
    carried.device = "cpu:0"
    assert [check for check in carried.checks("main") if not check["ok"] and check["what"].startswith("state")] == []
    wrong = right.replace("momentum=0.1", "momentum=0.11")
    assert "errs by" in await difference(wrong, "wrong_momentum", ConvolutionsInTF32)
    carried = Carried(vars(importlib.import_module("wrong_momentum")))
    carried.device = "cpu:0"
    wrong_ones = [check["what"] for check in carried.checks("main") if not check["ok"]]
    assert "state after.running_var" in wrong_ones
