"""Generated candidates for modules that nobody here made: what they return and what they leave behind, call by call."""

import copy
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from compared import Pair, facts_of, tensors
from graphs import HARDWARE
from modules import MODULES, TRITON, WRITES

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.codegen.lowering.call_text import pyname
from kernelswarm.hardware.capture import state, trace
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.schemas import ProblemError

HERE = Path(__file__).parent
CALLS = 3


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where candidates and their libraries lie."""
    path = tmp_path_factory.mktemp("modules")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path))
        yield path


@pytest.fixture(scope="module")
def pair_of(folder: Path) -> Callable[[str], Pair]:
    """A module and its candidate, generated and compiled once."""

    @functools.cache
    def make_pair(name: str) -> Pair:
        torch.manual_seed(0)
        target, makers = MODULES[name]
        return Pair(target, makers[0](), "cpp", folder / f"{name}.py")

    return make_pair


@pytest.mark.parametrize("name", MODULES)
def test_a_candidate_returns_and_leaves_what_the_reference_does(name: str, pair_of: Callable[[str], Pair]) -> None:
    pair, makers = pair_of(name), MODULES[name][1]
    assert 'extern "C"' in pair.source
    for _ in range(CALLS):
        pair.call(makers[0], falls_back=False)
    for maker in makers[1:]:
        pair.call(maker)


class UnusedNorm(torch.nn.Linear):
    """Has averages that no call moves."""

    def __init__(self) -> None:
        super().__init__(8, 4)
        self.norm = torch.nn.BatchNorm1d(8)


class KeepsInATuple(torch.nn.BatchNorm1d):
    """Writes what is neither parameter nor buffer, where nobody looks for it."""

    def __init__(self) -> None:
        super().__init__(8)
        self.kept = (torch.zeros(8),)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept[0].copy_(x[0])
        return super().forward(x)


def test_what_is_traced_with_its_averages_at_once_is_refused_as_others_are() -> None:
    with pytest.raises(ProblemError, match="the reference changes a tensor that is none of its inputs"):
        capture(KeepsInATuple(), [torch.randn(5, 8)])


SURE = {name: (target, makers[0]) for name, (target, makers) in MODULES.items() if state.surely_writes(target)}


@pytest.mark.parametrize(("target", "make"), [*SURE.values(), (UnusedNorm(), lambda: [torch.randn(5, 8)])])
def test_modules_with_averages_are_traced_with_them_at_once(
    target: torch.nn.Module, make: Callable[[], list[torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same graph: tracing MobileNetV2 without them first took a quarter of the time that it took in all."""
    inputs = make()
    graph = capture(target, inputs)
    monkeypatch.setattr(trace, "surely_writes", lambda target: False)
    assert graph == capture(target, inputs)


@pytest.mark.parametrize("name", [name for name, (target, _) in MODULES.items() if isinstance(target, torch.nn.Module)])
def test_a_parameter_is_a_parameter_and_a_buffer_a_buffer(name: str, pair_of: Callable[[str], Pair]) -> None:
    target, ours = MODULES[name][0], pair_of(name).kernel

    assert set(ours.state_dict()) == set(target.state_dict())
    assert set(dict(ours.named_parameters())) == set(dict(target.named_parameters()))
    assert set(dict(ours.named_buffers())) == set(tensors(target)) - set(
        dict(target.named_parameters(remove_duplicate=False))
    )
    assert all(weight.requires_grad for weight in ours.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_what_is_written_is_known(name: str, pair_of: Callable[[str], Pair]) -> None:
    graph = pair_of(name).graph
    nodes = {node.name: node.target or node.name for node in graph.nodes}
    assert {nodes[holder] for holder in graph.nodes[-1].kwargs} == WRITES.get(name, set())


@pytest.mark.parametrize("name", ["average", "decays", "attributes", "replaced", "adam"])
def test_capturing_changes_nothing(name: str) -> None:
    target, makers = MODULES[name]
    inputs = makers[0]()
    copies = [value.clone() for value in (*inputs, *tensors(target).values())]
    capture(target, inputs)

    assert all(torch.equal(*both) for both in zip(copies, (*inputs, *tensors(target).values()), strict=True))


@pytest.mark.parametrize("language", CODEGEN_BACKENDS)
@pytest.mark.parametrize("name", WRITES)
def test_every_write_is_in_every_body(name: str, language: str, pair_of: Callable[[str], Pair]) -> None:
    target, graph = MODULES[name][0], pair_of(name).graph
    source = CODEGEN_BACKENDS[language].source(facts_of(graph, target), graph, {}, HARDWARE)
    entry = "    def forward(" if isinstance(target, torch.nn.Module) else "\ndef kernel("
    plain, kernels = source.partition("def _aten(")[2].partition(entry)[::2]

    assert len(graph.nodes[-1].kwargs) == len(WRITES[name])
    for holder in graph.nodes[-1].kwargs:
        name = re.escape(pyname(holder))
        write = re.compile(rf"^\s+{name}\.copy_\(|^\s+_written = .*\({name}, ", re.M)
        assert write.search(plain), holder
        assert write.search(kernels), holder


@pytest.mark.parametrize("in_place", [True, False])
def test_an_optimizers_step_is_written_where_it_belongs(in_place: bool, tmp_path: Path) -> None:
    target, makers = MODULES["adam"]
    pair = Pair(target, makers[0](), "cpp", tmp_path / "candidate.py", in_place=in_place)
    assert pair.source.partition("\ndef kernel(")[2].count("torch.empty(") == (0 if in_place else 3)
    weight, *others = makers[0]()
    version = weight._version

    assert pair.kernel(weight, *others) is weight
    assert weight._version > version
    for maker in makers:
        pair.call(maker)


def test_what_is_no_parameter_any_more_is_read_as_an_attribute(pair_of: Callable[[str], Pair]) -> None:
    inputs, model = MODULES["basic_block_eval"][1][0](), copy.deepcopy(pair_of("basic_block_eval").kernel)
    name = next(name for name, _ in model.named_parameters())
    path, _, leaf = name.rpartition(".")
    other, doubled = torch.nn.Module(), torch.nn.Parameter(2 * model.get_parameter(name).detach())
    other.register_parameter(leaf, doubled)
    want = torch.func.functional_call(model, {name: doubled}, tuple(inputs))
    assert not torch.equal(model(*inputs), want)

    torch.nn.utils.parametrize.register_parametrization(model.get_submodule(path), leaf, Doubled())
    assert torch.equal(model(*inputs), want)

    replaced = copy.deepcopy(pair_of("basic_block_eval").kernel)
    parent, _, last = path.rpartition(".")
    setattr(replaced.get_submodule(parent), last, other)
    assert torch.equal(replaced(*inputs), want)


class Doubled(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


def test_a_result_that_is_also_kept_has_memory_of_its_own(pair_of: Callable[[str], Pair]) -> None:
    makers, model = MODULES["returns_what_it_keeps"][1], pair_of("returns_what_it_keeps").kernel
    first = model(*makers[0]())
    copy = first.clone()
    model(*makers[0]())

    assert torch.equal(first, copy)


def test_triton_candidates_leave_the_same(tmp_path: Path) -> None:
    """In a process of its own: the interpreter replaces Triton's functions."""
    folders = os.pathsep.join([str(HERE), str(HERE.parent / "support")])
    done = subprocess.run(
        [sys.executable, str(HERE / "triton_modules.py"), str(tmp_path), *TRITON],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": folders, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report == dict.fromkeys(TRITON, CALLS)


def test_layers_that_repeat_share_a_function_and_keep_their_own_weights(folder: Path) -> None:
    def layer() -> list[torch.nn.Module]:
        return [torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU()]

    torch.manual_seed(0)
    module = torch.nn.Sequential(*(part for _ in range(4) for part in layer()))
    for number in range(4):
        torch.nn.init.normal_(module[3 * number + 1].weight)
    pair = Pair(module, [torch.randn(5, 8)], "cpp", folder / "repeated.py")

    pair.call(lambda: [torch.randn(5, 8)], falls_back=False)
    assert pair.source.count('extern "C"') == 1
    assert len(re.findall(r"^ +_kernel0\(", pair.source, re.MULTILINE)) == 4


def test_steps_that_are_written_one_by_one_are_put_together_once(pair_of: Callable[[str], Pair]) -> None:
    source = pair_of("written_steps").source.partition("ModelNew")[2]

    assert "_scatter." not in source and source.count("aten.cat") <= 1


def test_what_is_written_for_each_of_many_steps_is_read_where_it_was_computed() -> None:
    def steps(x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros_like(x)
        for t in range(1, 24):
            h[:, t] = torch.tanh(x[:, t] + h[:, t - 1])
        return h

    plan = plan_of(capture(steps, [torch.randn(3, 24)]), Settings())
    assert [node.target for node in plan.externs] == ["aten.cat.default"]
    assert sum(node.target == "aten.cat.default" for node in plan.graph.nodes) == 1
