"""A problem as a child sees it: the user's file, executed. Both formats behind one class each."""

import copy
import inspect
import random
import types
from collections.abc import Callable
from typing import Any, Protocol

import numpy
import torch

from ...schemas import ProblemFormat
from .answering import Refused, attempt
from .messages import Open
from .oracle import in_float64
from .place import here
from .user_module import import_source


class Subject(Protocol):
    """What both formats offer."""

    name: str
    shapes: tuple[str, ...]
    """The first is timed."""

    tolerance: object
    """As the file gives it; None if it does not."""

    signature: tuple[str, ...]
    call: Callable[..., Any]
    """The reference: a function, or a module with its weights."""

    def bring(self) -> None:
        """Move its weights to where this process keeps its tensors."""

    def draw(self, shape: str, seed: int) -> list[Any]:
        """Inputs at ``shape`` from ``seed``, in main memory."""

    def setup(self) -> tuple[list[Any], dict[str, torch.Tensor]] | None:
        """Constructor's arguments and parameters, where candidates need them."""

    def precise(self, inputs: list[Any]) -> Any:
        """The reference's result computed in float64 throughout."""


def open_subject(problem: Open) -> Subject:
    """Execute a problem file.

    Raises:
        Refused: it does not import or does not follow its format; the message is a sentence for the user.
    """
    try:
        module = import_source(problem.name, problem.source, kind="problem")
    except Refused as refused:
        raise explained(refused, problem, "does not import") from None
    if problem.format is ProblemFormat.function:
        return FunctionSubject(problem, module)
    return KernelBenchSubject(problem, module)


class FunctionSubject:
    """``shapes``, ``inputs(generator, **shape)``, ``reference(*inputs)``."""

    def __init__(self, problem: Open, module: types.ModuleType) -> None:
        self.name = problem.name
        self._problem = problem
        self._shapes = _shapes(problem, module)
        self._inputs = _callable(problem, module, "inputs")
        self.call = _callable(problem, module, "reference")
        self.shapes = tuple(self._shapes)
        self.signature = tuple(inspect.signature(self.call).parameters)
        self.tolerance = getattr(module, "tolerance", None)

    def bring(self) -> None:
        """A function has no weights."""

    def draw(self, shape: str, seed: int) -> list[Any]:
        """Inputs at ``shape`` from ``seed``, in main memory."""
        _seed_everything(seed)
        generator = torch.Generator().manual_seed(seed)
        try:
            drawn = attempt(lambda: self._inputs(generator, **self._shapes[shape]))
        except Refused as refused:
            raise explained(refused, self._problem, f"inputs(generator, ...) fails at shape {shape!r}") from None
        return _as_list(drawn, self._problem, "inputs(generator, ...)")

    def setup(self) -> None:
        """A function has none."""

    def precise(self, inputs: list[Any]) -> Any:
        """The reference's result computed in float64 throughout."""
        return in_float64(self.call, inputs)


class KernelBenchSubject:
    """``Model``, ``get_inputs()``, ``get_init_inputs()``; weights are made once from the problem's private seed."""

    shapes: tuple[str, ...] = ("main",)

    def __init__(self, problem: Open, module: types.ModuleType) -> None:
        self.name = problem.name
        self._problem = problem
        self._get_inputs = _callable(problem, module, "get_inputs")
        make = _callable(problem, module, "Model")
        get_init = getattr(module, "get_init_inputs", list)
        _seed_everything(problem.seed)
        try:
            self._arguments = _as_list(attempt(get_init), problem, "get_init_inputs()")
            self.call: torch.nn.Module = attempt(lambda: make(*self._arguments))
        except Refused as refused:
            raise explained(refused, problem, "Model(*get_init_inputs()) fails") from None
        self.signature = tuple(inspect.signature(self.call.forward).parameters)
        self.tolerance = getattr(module, "tolerance", None)

    def bring(self) -> None:
        """Move the model to where this process keeps its tensors."""
        self.call = self.call.to(here().device)

    def draw(self, shape: str, seed: int) -> list[Any]:
        """Inputs from ``seed``; KernelBench files draw from torch's global generator."""
        _seed_everything(seed)
        try:
            drawn = attempt(self._get_inputs)
        except Refused as refused:
            raise explained(refused, self._problem, "get_inputs() fails") from None
        return _as_list(drawn, self._problem, "get_inputs()")

    def setup(self) -> tuple[list[Any], dict[str, torch.Tensor]]:
        """Constructor's arguments, and parameters and buffers by name."""
        return self._arguments, dict(self.call.state_dict())

    def precise(self, inputs: list[Any]) -> Any:
        """The model's result with weights, inputs and intermediate values in float64."""
        return in_float64(copy.deepcopy(self.call).double(), inputs)


def _shapes(problem: Open, module: types.ModuleType) -> dict[str, dict[str, Any]]:
    shapes = getattr(module, "shapes", None)
    if not isinstance(shapes, dict) or not shapes:
        raise Refused(f'{problem.name}.py has no `shapes`; add e.g. shapes = {{"main": dict(rows=2048, cols=4096)}}')
    for name, sizes in shapes.items():
        if not isinstance(name, str) or not isinstance(sizes, dict):
            raise Refused(f"{problem.name}.py: shapes[{name!r}] must be a dictionary of keyword arguments of inputs()")
    return shapes


def _callable(problem: Open, module: types.ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        raise Refused(f"{problem.name}.py lacks `{name}`; see the README for what a problem file defines")
    return found  # type: ignore[no-any-return]


def _as_list(drawn: Any, problem: Open, source: str) -> list[Any]:
    if isinstance(drawn, torch.Tensor):
        return [drawn]
    if isinstance(drawn, list | tuple):
        return list(drawn)
    raise Refused(f"{problem.name}.py: {source} returns a {type(drawn).__name__}; return a list of tensors or numbers")


def _seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def explained(refused: Refused, problem: Open, what: str) -> Refused:
    """``refused`` as a sentence for the problem's author: which file, ``what`` of it, why, and the way out."""
    if refused.kind == "cuda":
        return Refused(
            f"{problem.name}.py asks for cuda, pool {problem.device} has none; make its tensors on the cpu",
            log=refused.log,
        )
    if refused.kind == "memory":
        return Refused(
            f"{problem.name}.py {what}: it does not fit in memory ({refused}); use smaller shapes or raise "
            f"candidate_memory_bytes of pool {problem.device}",
            log=refused.log,
        )
    return Refused(f"{problem.name}.py {what}: {refused}", log=refused.log)
