"""A reference and the candidate generated for it, called side by side: results, inputs, parameters and buffers."""

import copy
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.hardware.machine.work import count_work
from kernelswarm.schemas import Graph, InputFact, ProblemFacts, StateFact

Maker = Callable[[], list[Any]]


def facts_of(graph: Graph, target: Any, backward: Graph | None = None) -> ProblemFacts:
    """What problem validation would find."""
    return ProblemFacts(
        signature=(),
        shapes=(),
        graph=graph,
        backward_graph=backward,
        work=count_work(graph),
        dtype="float32",
        float64_oracle=True,
        parameters=_parameters(target) if isinstance(target, torch.nn.Module) else {},
        is_module=isinstance(target, torch.nn.Module),
        state=tuple(StateFact(name=name, kind="attribute") for name in attributes(target)),
    )


def _parameters(module: torch.nn.Module) -> dict[str, InputFact]:
    buffers = dict(module.named_buffers(remove_duplicate=False))
    facts = {}
    for name, value in {**dict(module.named_parameters(remove_duplicate=False)), **buffers}.items():
        role = (
            "parameter" if name not in buffers else "buffer" if name in module.state_dict() else "buffer_not_persistent"
        )
        dtype = str(value.dtype).removeprefix("torch.")
        facts[name] = InputFact(name=name, kind="tensor", shape=tuple(value.shape), dtype=dtype, role=role)
    return facts


def loaded(source: str, path: Path) -> ModuleType:
    """A candidate file, imported."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pair:
    """A reference, its candidate, and the candidate's plain ATen calls, each with state of its own."""

    def __init__(self, target: Any, inputs: list[Any], language: str, path: Path, **config: Any) -> None:
        with torch.no_grad():
            self.graph = capture(target, inputs)
        self.source = CODEGEN_BACKENDS[language].source(facts_of(self.graph, target), self.graph, config, HARDWARE)
        self.file = loaded(self.source, path)
        self.target, self.plain = copy.deepcopy(target), copy.deepcopy(target)
        self.kernel: Any = self.file.ModelNew() if isinstance(target, torch.nn.Module) else self.file.kernel
        if isinstance(target, torch.nn.Module):
            self.kernel.load_state_dict(target.state_dict(), strict=True)
            for name in set(tensors(target)) - set(target.state_dict()):
                self.kernel.get_buffer(name).copy_(tensors(target)[name])

    def call(self, maker: Maker, falls_back: bool = True) -> None:
        """Call all three on the same inputs, and compare all they return and leave.

        Unless it ``falls_back``, the candidate has no plain calls to take while it runs.
        """
        given = maker()
        ours, plain = copied(given), copied(given)
        with torch.no_grad():
            want, got = self.target(*given), self._run(ours, falls_back)
            also = self.file._aten(*plain, *self._tensors())
        for name, results, inputs, state in (("kernels", got, ours, self.kernel), ("calls", also, plain, self.plain)):
            same(results, want, f"{name}: result")
            same(inputs, given, f"{name}: input")
            same(tensors(state), tensors(self.target), f"{name}: state")

    def _run(self, inputs: list[Any], falls_back: bool) -> Any:
        plain = self.file._aten
        if not falls_back:
            self.file._aten = None  # type: ignore[attr-defined]
        try:
            return self.kernel(*inputs)
        finally:
            self.file._aten = plain  # type: ignore[attr-defined]

    def _tensors(self) -> list[Any]:
        nodes = [node for node in self.graph.nodes if node.op == "param"]
        return [tensors(self.plain)[node.target] for node in nodes]


def copied(values: list[Any]) -> list[Any]:
    """The same numbers in memory of their own."""
    return [copy.deepcopy(value) for value in values]


def tensors(target: Any) -> dict[str, Any]:
    """Parameters, buffers and attributes by every name, in an order that is the same for all."""
    if not isinstance(target, torch.nn.Module):
        return {}
    named = [*target.named_parameters(remove_duplicate=False), *target.named_buffers(remove_duplicate=False)]
    return dict(sorted([*named, *attributes(target).items()]))


def attributes(target: Any) -> dict[str, Any]:
    """Tensors that a module has beside parameters and buffers."""
    parts = target.named_modules() if isinstance(target, torch.nn.Module) else ()
    named = ((f"{path}.{name}".lstrip("."), value) for path, part in parts for name, value in vars(part).items())
    return {name: value for name, value in named if isinstance(value, torch.Tensor)}


def same(got: Any, want: Any, label: str) -> None:
    """The same structure with the same numbers."""
    if isinstance(want, torch.Tensor):
        torch.testing.assert_close(got.detach(), want.detach(), rtol=1e-4, atol=2e-5, msg=lambda m: f"{label}: {m}")
        return
    assert type(got) is type(want), label
    if isinstance(want, dict):
        assert list(got) == list(want), label
        same(list(got.values()), list(want.values()), label)
    elif isinstance(want, list | tuple):
        assert len(got) == len(want), label
        for actual, expected in zip(got, want, strict=True):
            same(actual, expected, label)
    else:
        assert got == want, label
