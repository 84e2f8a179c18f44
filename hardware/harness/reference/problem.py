"""A problem in a child process: the user's file, executed. One class for each format."""

import copy
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from ....schemas import ProblemFormat
from ....schemas.problem import COTANGENTS
from ...dropin.constructor import by_position, call_once, made_on, positional_and_named
from ...processes.messages import HOST
from ..calls import backward, state
from ..calls.answering import Refused, attempt
from ..calls.oracle import in_float64, in_lower
from ..calls.seeding import seed_everything
from ..calls.user_module import import_source
from ..messages.commands import Open
from ..messages.state import StateEntry
from ..tensors import values
from ..tensors.tensor_placement import current_device, to_device
from .timed_shapes import shapes_of, weights_of
from .user_values import check_packable, explained, scale_weights

Rounding = Callable[[torch.Tensor], torch.Tensor]
"""Takes digits away from a floating tensor; its dtype stays."""


class ReferenceProblem:
    """What both formats offer. What it says of state is true of a function, which has none."""

    shapes: tuple[str, ...]
    """Those that are timed come first."""

    timed: dict[str, float]
    """Weights of the timed shapes; empty: the first is timed alone."""

    sizes: dict[str, dict[str, int]]
    """The integers of every shape that has some; none where a shape cannot be another one."""

    def __init__(self, problem: Open) -> None:
        self.name = problem.name
        self._problem = problem

    def _take(self, forward: Callable[..., Any], named: Callable[..., Any], module: types.ModuleType) -> None:
        """Take ``forward``, whose parameters ``named`` has, and what the file says beside it."""
        self.backward = _flag(self._problem, module, "backward", "have gradients judged")
        """Whether it asks for the backward pass, too."""
        self.finite_inputs = _flag(self._problem, module, "finite_inputs", "have kernels judged on finite inputs alone")
        """Whether it says that its inputs are finite."""
        self.forward = forward
        """The forward pass alone."""
        self.call = self._passes(forward)
        """The reference: a function, or a module with its weights; both passes as one where the problem asks."""
        self.signature = (*inspect.signature(named).parameters, *((COTANGENTS,) if self.backward else ()))
        self.tolerance: object = getattr(module, "tolerance", None)
        """As the file gives it; None if it does not."""
        self.published_tolerance: object = getattr(module, "published_tolerance", None)
        """Another one, by shape, that is only reported (:mod:`.published`); None if the file has none."""

    @property
    def module(self) -> torch.nn.Module | None:
        """The module that ``call`` runs; None for a function."""
        return None

    def _passes(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        return backward.differentiated(forward, among=backward.TIMED) if self.backward else forward

    def compiled(self, mode: str | None, *, whole: bool = False) -> Callable[..., Any]:
        """``call``, made by ``torch.compile``; ``whole``: or an error, if that cannot be one graph."""
        return self._passes(torch.compile(self.forward, mode=mode, dynamic=False, fullgraph=whole))

    def move_to_device(self) -> None:
        """Move its weights to where this process keeps its tensors."""

    def draw(self, shape: str, seed: int, sizes: Mapping[str, int] | None = None) -> list[Any]:
        """Inputs at ``shape`` from ``seed``; ``sizes`` take the place of those that it names.

        In main memory, or already where this process keeps its tensors.
        """
        raise NotImplementedError

    def setup(self) -> state.Setup | None:
        """What a candidate is made with, where it needs that."""
        return None

    def restart(self, names: Iterable[str] | None = None) -> None:
        """Put back what calls have changed, or of that what ``names`` name."""

    def changed(self) -> dict[str, str]:
        """Names and kinds of what calls have changed since the start."""
        return {}

    def precise(
        self,
        inputs: list[Any],
        shake: float = 0.0,
        seed: int = 0,
        entries: Sequence[StateEntry] = (),
        earlier: Sequence[list[Any]] = (),
    ) -> Any:
        """The reference's result computed in float64 throughout, every input off by a share ``shake`` at most, by
        ``seed``.

        Behind the outputs stands what it leaves of ``entries``; the calls ``earlier`` come before, from the start on.
        """
        return in_float64(state.with_state(self.call, entries, None), inputs, shake, seed)

    def lowered(self, inputs: list[Any], dtype: torch.dtype) -> Any:
        """The reference's result computed in ``dtype`` throughout."""
        return in_lower(self.call, inputs, dtype)

    def rounded(self, inputs: list[Any], rounding: Rounding) -> Any:
        """The reference's result, its inputs and weights rounded before, computed in their own precision."""
        return self.call(*_rounded(inputs, rounding))

    def _with_cotangents(self, inputs: list[Any], seed: int) -> list[Any]:
        """``inputs``, and behind them the gradients of the outputs where it asks for the backward pass."""
        if not self.backward:
            return inputs
        try:
            outputs = attempt(lambda: self.forward(*values.mapped(to_device(inputs), torch.clone)))
        except Refused as refused:
            raise explained(refused, self._problem, "fails on its own inputs") from None
        return [*inputs, backward.cotangents(outputs, seed)]


def open_reference(problem: Open) -> ReferenceProblem:
    """Execute a problem file.

    Raises:
        Refused: it does not import or does not follow its format; the message is a sentence for the user.
    """
    try:
        module = import_source(problem.name, problem.source, kind="problem")
    except Refused as refused:
        raise explained(refused, problem, "does not import") from None
    if problem.format is ProblemFormat.function:
        return FunctionReference(problem, module)
    return KernelBenchReference(problem, module)


class FunctionReference(ReferenceProblem):
    """``shapes``, ``inputs(generator, **shape)``, ``reference(*inputs)``."""

    def __init__(self, problem: Open, module: types.ModuleType) -> None:
        super().__init__(problem)
        self._shapes = shapes_of(problem.name, module)
        self.timed = weights_of(problem.name, module, self._shapes)
        self._inputs = _callable(problem, module, "inputs")
        forward = _callable(problem, module, "reference")
        self._take(forward, forward, module)
        self.shapes = tuple(self._shapes)
        self.sizes = {name: sizes for name in self.shapes if (sizes := _sizes(self._shapes[name]))}

    def draw(self, shape: str, seed: int, sizes: Mapping[str, int] | None = None) -> list[Any]:
        """Inputs at ``shape`` from ``seed``, in main memory; ``sizes`` take the place of those that it names."""
        seed_everything(seed)
        generator = torch.Generator().manual_seed(seed)
        try:
            drawn = attempt(lambda: self._inputs(generator, **{**self._shapes[shape], **(sizes or {})}))
        except Refused as refused:
            raise explained(refused, self._problem, f"inputs(generator, ...) fails at shape {shape!r}") from None
        inputs = _by_position(self.forward, drawn, self._problem, "inputs(generator, ...)")
        return self._with_cotangents(inputs, seed)


class KernelBenchReference(ReferenceProblem):
    """``Model``, ``get_inputs()``, ``get_init_inputs()``; weights are made once from the problem's private seed."""

    shapes: tuple[str, ...] = ("main",)
    timed: dict[str, float] = {}
    sizes: dict[str, dict[str, int]] = {}

    def __init__(self, problem: Open, module: types.ModuleType) -> None:
        super().__init__(problem)
        self._get_inputs = _callable(problem, module, "get_inputs")
        make = _callable(problem, module, "Model")
        get_init = getattr(module, "get_init_inputs", list)
        seed_everything(problem.seed)
        try:
            self._arguments = _constructor_arguments(make, attempt(get_init), problem)
            check_packable(self._arguments, problem)
            self._model: torch.nn.Module
            # Seeded once more, as KernelBench does: a candidate may make its weights itself, from the same seed.
            self._model, place = attempt(
                lambda: made_on(current_device().device, make, self._arguments, lambda: seed_everything(problem.seed))
            )
            self._is_on_device = place.type != HOST
        except Refused as refused:
            given = "Model(*get_init_inputs()) fails"
            if get_init is list:
                given = "Model() fails (what get_init_inputs() returns is passed to it; the file has no such function)"
            raise explained(refused, problem, given) from None
        try:
            attempt(lambda: call_once(self._model, self._first_inputs))
        except Refused as refused:
            raise explained(refused, problem, "has lazy layers, and its first call fails") from None
        scale_weights(self._model, problem.weight_exponents)
        self._take(self._model, self._model.forward, module)
        try:
            self._start = attempt(self._started)
        except Refused as refused:
            failure = "has parameters or buffers that cannot be copied (a lazy layer has none before it is called)"
            raise explained(refused, problem, failure) from None

    @property
    def module(self) -> torch.nn.Module:
        """The model."""
        return self._model

    def _started(self) -> state.Start:
        start = state.Start(self._model)
        start.keep()
        self._wide = state.InPrecision(self._model, torch.float64)
        return start

    def restart(self, names: Iterable[str] | None = None) -> None:
        """Put back what calls have changed, or of that what ``names`` name."""
        self._start.restore(names)

    def changed(self) -> dict[str, str]:
        """Names and kinds of what calls have changed since the start."""
        return self._start.changed()

    def move_to_device(self) -> None:
        """Move the model to where this process keeps its tensors."""
        self.restart()
        if self._is_on_device:
            return
        self._model = self._model.to(current_device().device)
        self._start = self._started()

    def draw(self, shape: str, seed: int, sizes: Mapping[str, int] | None = None) -> list[Any]:
        """Inputs from ``seed``; KernelBench files draw from torch's global generator, at the sizes they have."""
        inputs = self._drawn_on_device(seed) if current_device().device.type != HOST else None
        if inputs is None:
            inputs = self._drawn(seed)
        return self._with_cotangents(inputs, seed)

    def _first_inputs(self) -> list[Any]:
        """What lazy layers take their sizes from."""
        drawn = self._drawn(self._problem.seed)
        return to_device(drawn) if self._is_on_device else drawn

    def _drawn(self, seed: int) -> list[Any]:
        seed_everything(seed)
        try:
            drawn = attempt(self._get_inputs)
        except Refused as refused:
            raise explained(refused, self._problem, "get_inputs() fails") from None
        return _by_position(self._model.forward, drawn, self._problem, "get_inputs()")

    def _drawn_on_device(self, seed: int) -> list[Any] | None:
        """The same by the device's generator: a processor draws 6 GB in one thread. None where the file minds."""
        try:
            with current_device().device:
                drawn = self._drawn(seed)
            inputs: list[Any] = to_device(drawn)
        except (Refused, RuntimeError, TypeError):
            return None
        return inputs

    def setup(self) -> state.Setup:
        """Constructor's arguments, ``state_dict``, and what the model keeps beside it."""
        self.restart()
        weights = dict(self._model.state_dict())
        beside = state.beside(self._model, weights)
        return state.Setup(*self._arguments, weights, beside, self._problem.seed, self._is_on_device)

    def precise(
        self,
        inputs: list[Any],
        shake: float = 0.0,
        seed: int = 0,
        entries: Sequence[StateEntry] = (),
        earlier: Sequence[list[Any]] = (),
    ) -> Any:
        """The model's result with weights, inputs and intermediate values in float64, whose state is its own."""
        self.restart()
        model = self._wide.at_the_start()
        call = self._passes(model)
        for before in earlier:
            in_float64(call, before)
        return in_float64(state.with_state(call, entries, model), inputs, shake, seed)

    def lowered(self, inputs: list[Any], dtype: torch.dtype) -> Any:
        """The model's result with weights, inputs and intermediate values in ``dtype``."""
        self.restart()
        return in_lower(self._passes(state.in_precision(self._model, dtype)), inputs, dtype)

    def rounded(self, inputs: list[Any], rounding: Rounding) -> Any:
        """The model's result on rounded inputs with rounded weights."""
        self.restart()
        model = copy.deepcopy(self._model)
        for weight in (*model.parameters(), *model.buffers()):
            if weight.is_floating_point():
                weight.copy_(rounding(weight))
        return self._passes(model)(*_rounded(inputs, rounding))


def _rounded(inputs: list[Any], rounding: Rounding) -> list[Any]:
    rounded: list[Any] = values.mapped(
        inputs, lambda tensor: rounding(tensor) if tensor.is_floating_point() else tensor.clone()
    )
    return rounded


def _flag(problem: Open, module: types.ModuleType, name: str, purpose: str) -> bool:
    flag = getattr(module, name, False)
    if not isinstance(flag, bool):
        raise Refused(f"{problem.name}.py: `{name}` is a {type(flag).__name__}; set it to True to {purpose}")
    return flag


def _sizes(arguments: dict[str, Any]) -> dict[str, int]:
    """Those of a shape's arguments that may be sizes."""
    return {name: value for name, value in arguments.items() if type(value) is int and 0 < value < 1 << 40}


def _callable(problem: Open, module: types.ModuleType, name: str) -> Callable[..., Any]:
    attribute = getattr(module, name, None)
    if not callable(attribute):
        raise Refused(f"{problem.name}.py lacks `{name}`; docs/problems.md says what a problem file defines")
    return attribute  # type: ignore[no-any-return]


def _by_position(forward: Callable[..., Any], drawn: Any, problem: Open, source: str) -> list[Any]:
    try:
        return by_position(forward, drawn)
    except TypeError as error:
        way_out = "return a list, which is passed by position, or a dictionary of arguments by name"
        hint = "" if "by name alone" in str(error) else f"; {way_out}"
        raise Refused(f"{problem.name}.py: {source} returns {error}{hint}") from None


def _constructor_arguments(make: Callable[..., Any], returned: Any, problem: Open) -> tuple[list[Any], dict[str, Any]]:
    try:
        return positional_and_named(make, returned)
    except TypeError as error:
        raise Refused(
            f"{problem.name}.py: get_init_inputs() returns {error}; return a list of arguments, or a dictionary of "
            "them by name"
        ) from None
