"""The validation process: finds out whether a problem can be searched, and all that the search must know of it."""

import math
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from ....schemas import (
    Graph,
    InputFact,
    InputKind,
    ProblemError,
    ProblemFacts,
    ProblemFormat,
    ShapeFacts,
    StateFact,
    Work,
)
from ...dropin.conditions import described
from ...machine.floors import dense_operations
from ...processes.messages import Spawn
from ..calls.answering import Refused, attempt, serve_commands
from ..calls.backward import differentiated
from ..calls.sleeping_threads import sleep_while_waiting
from ..calls.state import held
from ..inputs import held_out
from ..inputs.sizes import bytes_of, left_out
from ..messages.commands import Open, ProblemValidated, ValidateProblem
from ..messages.state import ATTRIBUTE
from ..reference.effects import CALLS, Called, called, facts_of, names_of
from ..reference.needed import needed_bytes
from ..reference.problem import ReferenceProblem, open_reference
from ..reference.targets import targets_of
from ..reference.validity import InputVariants, InvalidVariant, Usual, elsewhere, is_slow, usual
from ..reference.wrong_answers import both, passing
from ..tensors import values
from ..tensors.bounds import read_tolerance
from ..tensors.compare import Target, relative_bound
from ..tensors.likeness import repeats, same
from ..tensors.tensor_placement import current_device, to_device
from .reference import prepare_process

MOST_LITERAL = 4096
"""Characters of an input that is no tensor, as text: a longer one fits no call."""

_FIXED_SEEDS = (1, 2)
"""Validation draws from known seeds: nothing that it draws is used to judge a candidate."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    prepare_process(request)
    sleep_while_waiting(request.threads)
    serve_commands(channel, {ValidateProblem: _validate})


def _validate(command: ValidateProblem, descriptors: list[int]) -> ProblemValidated:
    problem = command.problem
    reference = open_reference(problem)
    _check_tolerance(reference, problem)
    main = _drawn(reference, problem, reference.shapes[0])
    # In main memory: the graph names no device, and candidates put their tensors where the inputs are.
    captured = _capture(reference, main)
    further = {name: _capture(reference, _drawn(reference, problem, name)) for name in list(reference.timed)[1:]}
    reference.move_to_device()
    examination = _Examination(reference, problem)
    for name in reference.shapes:
        examination.examine(name, main if name == reference.shapes[0] else _drawn(reference, problem, name))
    parameters = _parameters(reference)
    main_shape = examination.shapes[0]
    work = _counted(captured.work, main_shape, parameters, examination)
    return ProblemValidated(
        facts=ProblemFacts(
            signature=reference.signature,
            shapes=tuple(
                _timed_facts(shape, further.get(shape.name), parameters, examination) for shape in examination.shapes
            ),
            graph=captured.graph,
            backward_graph=captured.backward,
            work=work,
            dtype=examination.dtype,
            float64_oracle=examination.float64,
            capture_error=captured.error,
            parameters=parameters,
            is_module=reference.module is not None,
            state=examination.state,
            operators=_operators(captured.graph),
            error_bound=examination.error_bounds[main_shape.name],
            input_kinds=(*examination.left_out(), *examination.variants(), *examination.held_out()),
        )
    )


@dataclass
class _Examination:
    """What is found out by running the reference, shape by shape, where it is to run."""

    reference: ReferenceProblem
    problem: Open
    shapes: list[ShapeFacts] = field(default_factory=list)
    float64: bool = True
    dtype: str = ""
    """Precision to match."""
    error_bounds: dict[str, float | None] = field(default_factory=dict)
    """Of the floating outputs, by timed shape; None if it is absolute."""
    state: tuple[StateFact, ...] = ()
    """What a call of the reference changes."""
    final_state: dict[str, tuple[InputFact, ...]] = field(default_factory=dict)
    """What a call leaves of that, by timed shape."""
    needed: dict[str, int] = field(default_factory=dict)
    """Bytes of the inputs that the answer cannot do without, by timed shape."""
    sizes: dict[str, int] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    usual: dict[str, Usual] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    """Wrong answers that passed on everything so far."""
    lone: list[Any] | None = None

    def examine(self, name: str, drawn: list[Any]) -> None:
        """Examine the problem at one shape, on ``drawn`` in main memory, which is emptied.

        Raises:
            Refused: it cannot be searched.
        """
        inputs = to_device(drawn)
        drawn.clear()
        self._check_drawn_again(name, inputs)
        began = time.monotonic()
        first = _called_from(_FIXED_SEEDS[0], self.reference, self.problem, inputs)
        half = time.monotonic() - began
        _check_deterministic(self.reference, self.problem, name, inputs, first)
        self._check_depends(name, inputs, first)
        self._take_state(inputs, first)
        began = time.monotonic()
        targets = targets_of(self.reference, self.problem, inputs, first=first)
        self.took[name] = time.monotonic() - began + half
        self.sizes[name] = values.size_of(inputs)
        self.usual[name] = usual(inputs, targets)
        names = self._passing_next(name, inputs, passing(inputs, targets))
        self.passing = both(self.passing, names) if self.shapes else names
        if not self.shapes or name in self.reference.timed:
            self.error_bounds[name] = relative_bound(read_tolerance(self.reference.tolerance), targets)
            self.final_state[name] = _facts([target for target in targets if target.entry is not None])
            self.needed[name] = 0 if is_slow(self.took[name]) else needed_bytes(self.reference, inputs)
        self.float64 = self.float64 and all(target.float64 for target in targets)
        self.dtype = self.dtype or _dtype_to_match(targets)
        self.shapes.append(_shape_facts(self.reference, name, inputs, targets))
        self.lone = inputs if len(self.reference.shapes) == 1 else None

    def _passing_next(self, shape: str, inputs: list[Any], names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the wrong answers ``names`` that pass for the next call, too, which finds another state."""
        if not names or self.reference.module is None or not self.state:
            return names
        following = to_device(self.reference.draw(shape, _FIXED_SEEDS[1]))
        return both(names, passing(following, targets_of(self.reference, self.problem, following, earlier=[inputs])))

    def _check_drawn_again(self, shape: str, inputs: list[Any]) -> None:
        if not same(inputs, to_device(self.reference.draw(shape, _FIXED_SEEDS[0]))):
            raise Refused(
                f"{self.problem.name}.py is not deterministic: inputs at shape {shape!r} differ although the seed is "
                "the same; draw from the given generator only"
            )

    def _take_state(self, inputs: list[Any], first: Called) -> None:
        """What calls change: some only do from the second one on."""
        entries = first.entries
        if self.reference.changed():
            entries = called(self.reference, self.problem, inputs, [inputs] * (CALLS - 1)).entries
        self.state = tuple(dict.fromkeys((*self.state, *facts_of(entries))))

    def _check_depends(self, shape: str, inputs: list[Any], first: Called) -> None:
        """Numbers alone may be the same whatever the inputs are; of tensors the wrong answers show that."""
        if first.entries or not all(isinstance(output, int | float) for output in first.outputs):
            return
        others = to_device(self.reference.draw(shape, _FIXED_SEEDS[1]))
        again = _called_from(_FIXED_SEEDS[0], self.reference, self.problem, others)
        if same(first.outputs, again.outputs) and not same(inputs, others):
            raise Refused(
                f"{self.problem.name}.py decides nothing: the reference returns "
                f"{', '.join(map(repr, first.outputs))} for different inputs at shape {shape!r}; return what is "
                "computed from them"
            )

    @property
    def timed(self) -> list[ShapeFacts]:
        """The timed shapes."""
        return [shape for shape in self.shapes if shape.name in self.reference.timed] or self.shapes[:1]

    def left_out(self) -> tuple[InputKind, ...]:
        """What candidates are not checked on because it is too large."""
        return tuple(kind for shape in self.timed for kind in _left_out(shape))

    def variants(self) -> tuple[InputKind, ...]:
        """The inputs made from the problem's own, now that all shapes were examined.

        Raises:
            Refused: a wrong answer passes on them, too.
        """
        calls = {shape.name: sum(map(_bytes, (*shape.inputs, *shape.outputs))) for shape in self.timed}
        variants = InputVariants(
            self.reference, self.problem, _FIXED_SEEDS[0], self.sizes, calls, self.took, self.passing, self.lone
        )
        input_kinds = variants.examined()
        if variants.passing:
            raise Refused(
                f"{self.problem.name}.py decides nothing: {variants.passing[0]} passes as the right answer on all "
                "inputs that candidates would be checked on; change its inputs or its tolerance"
            )
        return input_kinds

    def held_out(self) -> tuple[InputKind, ...]:
        """Whether shapes can be made up that the problem does not name. Those tried here are none that is judged on."""
        input_kinds: list[InputKind] = []
        for base, variants in held_out.bases(self.sizes, {shape.name: bool(_left_out(shape)) for shape in self.timed}):
            for variant in variants:
                sizes = held_out.made_up(self.reference.sizes, base, variant, self.sizes[base], _FIXED_SEEDS[0])
                if sizes is None:
                    continue
                refused = self._refused_at(base, variant, sizes)
                input_kinds.append(InputKind(name=variant, shape=base, refused=refused))
                if not refused:
                    break
        if input_kinds:
            return tuple(input_kinds)
        is_module = self.problem.format is ProblemFormat.kernelbench
        why = held_out.ONE_SHAPE if is_module else held_out.NO_SIZES
        return (InputKind(name=held_out.HELD_OUT, shape=self.reference.shapes[0], refused=why),)

    def _refused_at(self, base: str, variant: str, sizes: dict[str, int]) -> str:
        usual_there, took = self.usual[base], self.took[base]
        try:
            elsewhere(self.reference, self.problem, base, variant, sizes, _FIXED_SEEDS[0], usual_there, took)
        except InvalidVariant as why:
            return str(why)
        return ""


def _left_out(main: ShapeFacts) -> tuple[InputKind, ...]:
    """What candidates are not checked on at a timed shape."""
    why = left_out(sum(map(_bytes, main.inputs)), sum(map(_bytes, main.outputs)))
    return (InputKind(name="more_sets", shape=main.name, refused=why),) if why else ()


def _check_tolerance(reference: ReferenceProblem, problem: Open) -> None:
    try:
        read_tolerance(reference.tolerance)
    except ProblemError as error:
        raise Refused(f"{problem.name}.py: {error}") from None


def _drawn(reference: ReferenceProblem, problem: Open, shape: str) -> list[Any]:
    """Inputs at ``shape`` in main memory, made sure to be ones that a candidate can be given."""
    inputs = reference.draw(shape, _FIXED_SEEDS[0])
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.device not in (torch.device("cpu"), current_device().device):
            raise Refused(
                f"{problem.name}.py asks for {value.device.type}, pool {problem.device} has none; make its tensors "
                "on the cpu"
            )
        _check_value(problem, reference, index, value)
    return [values.mapped(value, torch.Tensor.cpu) for value in inputs]


def _check_value(problem: Open, reference: ReferenceProblem, index: int, value: Any) -> None:
    allowed = (torch.Tensor, bool, int, float, str, type(None), torch.dtype)
    for leaf in values.leaves(value):
        if not isinstance(leaf, allowed):
            name = reference.signature[index] if index < len(reference.signature) else str(index)
            raise Refused(
                f"{problem.name}.py: input {name} is a {type(leaf).__name__}; give tensors, or what Python can pickle"
            )


def _check_deterministic(
    reference: ReferenceProblem, problem: Open, shape: str, inputs: list[Any], first: Called
) -> None:
    """Call the reference once more, from the same start but from another state of the global generators than before.

    Not against the oracle: that is a call too, and a random one makes a bound that lets everything pass.
    """
    again = _called_from(_FIXED_SEEDS[1], reference, problem, inputs)
    names = [*(f"output {index} of the reference" for index, _ in enumerate(first.outputs))]
    names += [f"{entry.kind} {entry.name}, which the reference writes," for entry in first.entries]
    alike = first.entries == again.entries and len(first.outputs) == len(again.outputs)
    for name, answer, repeated in zip(names, first.answer, again.answer, strict=False):
        if not alike or not repeats(answer, repeated):
            raise Refused(
                f"{problem.name}.py is not deterministic: {name} differs between two calls on the same inputs at shape "
                f"{shape!r}; a random step must become an input{_way_out(reference)}"
            )


def _way_out(reference: ReferenceProblem) -> str:
    if reference.module is None:
        return ", and what one call leaves for the next an input that is written"
    return ", and what one call leaves for the next a buffer, or an attribute that is a tensor or a number"


def _called_from(seed: int, reference: ReferenceProblem, problem: Open, inputs: list[Any]) -> Called:
    torch.manual_seed(seed)
    return called(reference, problem, inputs)


def _shape_facts(reference: ReferenceProblem, name: str, inputs: list[Any], targets: list[Target]) -> ShapeFacts:
    outputs = _facts([target for target in targets if target.entry is None])
    named = zip(names_of(reference.signature, len(inputs)), inputs, strict=True)
    return ShapeFacts(name=name, inputs=tuple(_fact(key, value) for key, value in named), outputs=outputs)


def _facts(targets: list[Target]) -> tuple[InputFact, ...]:
    return tuple(
        InputFact(name=f"output_{index}", kind=target.kind, shape=target.shape, dtype=target.dtype)
        for index, target in enumerate(targets)
    )


def _fact(name: str, value: Any) -> InputFact:
    if isinstance(value, torch.Tensor):
        return InputFact(name=name, kind="tensor", shape=tuple(value.shape), dtype=values.dtype_name(value.dtype))
    kind = type(value).__name__
    return InputFact(
        name=name, kind=kind if kind in ("int", "float", "bool") else "other", literal=described(value)[:MOST_LITERAL]
    )


def _parameters(reference: ReferenceProblem) -> dict[str, InputFact]:
    """Parameters and buffers, also those that ``state_dict`` leaves out."""
    if reference.module is None:
        return {}
    reference.restart()
    return {
        name: msgspec.structs.replace(_fact(name, member.value), role=member.kind)
        for name, member in held(reference.module).items()
        if member.kind != ATTRIBUTE and isinstance(member.value, torch.Tensor)
    }


def _dtype_to_match(targets: list[Target]) -> str:
    floating = [target.dtype or target.kind for target in targets if target.floating]
    return floating[0] if floating else targets[0].dtype or targets[0].kind


@dataclass(frozen=True)
class _Captured:
    """What was captured of the reference; without a graph it is searched without."""

    graph: Graph | None = None
    backward: Graph | None = None
    work: Work | None = None
    error: str = ""


def _capture(reference: ReferenceProblem, inputs: list[Any]) -> _Captured:
    names = names_of(reference.signature, len(inputs))
    try:
        return attempt(lambda: _captured(reference, inputs, names))
    except Refused as refused:
        return _Captured(error=str(refused))


def _captured(reference: ReferenceProblem, inputs: list[Any], names: list[str]) -> _Captured:
    from ...capture import capture

    try:
        if not reference.backward:
            graph = capture.capture(reference.forward, inputs, names)
            return _Captured(graph, None, capture.count_work(graph))
        graph = capture.capture(reference.forward, inputs[:-1], names[:-1])
        joint, gradients = capture.capture_backward(reference.forward, differentiated, inputs, names)
        return _Captured(graph, gradients, capture.count_work(joint))
    except ProblemError as error:
        return _Captured(error=str(error))


def _counted(work: Work | None, shape: ShapeFacts, parameters: dict[str, InputFact], examination: _Examination) -> Work:
    """What the graph says, but outputs as they came out: of sizes that depend on data the graph knows only a limit."""
    by_size = _work_by_size(shape, parameters, examination.final_state[shape.name])
    if work is None:
        return by_size
    counted = msgspec.structs.replace(work, write_bytes=by_size.write_bytes)
    # By the graph an output that is a view of an input costs nothing.
    written = min(work.write_bytes, by_size.write_bytes)
    return msgspec.structs.replace(
        counted, needed_bytes=min(examination.needed[shape.name], counted.read_bytes) + written
    )


def _timed_facts(
    shape: ShapeFacts, captured: _Captured | None, parameters: dict[str, InputFact], examination: _Examination
) -> ShapeFacts:
    """The facts of ``shape`` with its weight, and with what is counted there if it is a further timed one."""
    weight = examination.reference.timed.get(shape.name, 0.0)
    if captured is None:
        return msgspec.structs.replace(shape, weight=weight)
    dense = dense_operations(captured.graph) if captured.graph is not None else 0
    work = _counted(captured.work, shape, parameters, examination)
    return msgspec.structs.replace(
        shape,
        weight=weight,
        work=msgspec.structs.replace(work, dense_flops=dense),
        error_bound=examination.error_bounds[shape.name],
    )


def _work_by_size(shape: ShapeFacts, parameters: dict[str, InputFact], final_state: tuple[InputFact, ...]) -> Work:
    """Work where there is no graph: everything read and written once, one operation for each element written."""
    read = sum(map(_bytes, (*shape.inputs, *parameters.values())))
    written = (*shape.outputs, *final_state)
    return Work(read_bytes=read, write_bytes=sum(map(_bytes, written)), flops=sum(map(_count, written)))


def _count(fact: InputFact) -> int:
    return math.prod(fact.shape)


def _bytes(fact: InputFact) -> int:
    return bytes_of(fact.shape, fact.dtype)


def _operators(graph: Graph | None) -> tuple[str, ...]:
    if graph is None:
        return ()
    return tuple(sorted({node.target for node in graph.nodes if node.op == "call" and node.target.startswith("aten")}))
