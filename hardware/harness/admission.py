"""The admission's process: finds out whether a problem can be searched, and all that the search must know of it."""

import math
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from ...schemas import Graph, InputFact, InputKind, ProblemError, ProblemFacts, ProblemFormat, ShapeFacts, Work
from ..dropin.conditions import described
from . import held_out, values
from .answering import Refused, attempt, serve_commands
from .bounds import read_tolerance
from .compare import Target, relative_bound, rms_of_finite
from .meaning import Battery, Meaningless, Usual, elsewhere, is_slow, usual
from .messages import Admit, Admitted, Open, Spawn
from .needed import needed_bytes
from .place import brought, here
from .reference import prepare_process
from .sizes import bytes_of, left_out
from .subject import Subject, open_subject
from .targets import reference_outputs, targets_of
from .wrong_answers import both, passing

_ORDER_SLACK = 256
"""Units in the last place that two runs of one reference may differ by."""

MOST_LITERAL = 4096
"""Characters of an input that is no tensor, as text: a longer one fits no call."""

_FIXED_SEEDS = (1, 2)
"""Admission draws from known seeds: nothing that it draws is used to judge a candidate."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    prepare_process(request)
    serve_commands(channel, {Admit: _admit})


def _admit(command: Admit, descriptors: list[int]) -> Admitted:
    problem = command.problem
    subject = open_subject(problem)
    _check_tolerance(subject, problem)
    main = _drawn(subject, problem, subject.shapes[0])
    # In main memory: the graph names no device, and candidates put their tensors where the inputs are.
    graph, work, capture_error = _capture(subject, main)
    subject.bring()
    examination = _Examination(subject, problem)
    for name in subject.shapes:
        examination.examine(name, main if name == subject.shapes[0] else _drawn(subject, problem, name))
    parameters = _parameters(subject)
    shapes = tuple(examination.shapes)
    return Admitted(
        facts=ProblemFacts(
            signature=subject.signature,
            shapes=shapes,
            graph=graph,
            work=_counted(work, shapes[0], parameters, examination.needed),
            dtype=examination.dtype,
            float64_oracle=examination.float64,
            capture_error=capture_error,
            parameters=parameters,
            is_module=subject.setup() is not None,
            operators=_operators(graph),
            error_bound=examination.error_bound,
            input_kinds=(*_left_out(shapes[0]), *examination.kinds(), *examination.held_out()),
        )
    )


@dataclass
class _Examination:
    """What is found out by running the reference, shape by shape, where it is to run."""

    subject: Subject
    problem: Open
    shapes: list[ShapeFacts] = field(default_factory=list)
    float64: bool = True
    dtype: str = ""
    """Precision to match."""
    error_bound: float | None = None
    """Of the timed shape's floating outputs; None if it is absolute."""
    needed: int = 0
    """Bytes of the timed shape's inputs that the answer cannot do without."""
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
        inputs = brought(drawn)
        drawn.clear()
        self._check_drawn_again(name, inputs)
        began = time.monotonic()
        native = _reference_from(_FIXED_SEEDS[0], self.subject, self.problem, inputs)
        half = time.monotonic() - began
        _check_deterministic(self.subject, self.problem, name, inputs, native)
        self._check_depends(name, inputs, native)
        began = time.monotonic()
        targets = targets_of(self.subject, self.problem, inputs, native=native)
        self.took[name] = time.monotonic() - began + half
        self.sizes[name] = values.size_of(inputs)
        self.usual[name] = usual(inputs, targets)
        found = passing(inputs, targets)
        self.passing = both(self.passing, found) if self.shapes else found
        if not self.shapes:
            self.error_bound = relative_bound(read_tolerance(self.subject.tolerance), targets)
            self.needed = 0 if is_slow(self.took[name]) else needed_bytes(self.subject, inputs)
        self.float64 = self.float64 and all(target.float64 for target in targets)
        self.dtype = self.dtype or _dtype_to_match(targets)
        self.shapes.append(_shape_facts(self.subject, name, inputs, targets))
        self.lone = inputs if len(self.subject.shapes) == 1 else None

    def _check_drawn_again(self, shape: str, inputs: list[Any]) -> None:
        if not _same(inputs, brought(self.subject.draw(shape, _FIXED_SEEDS[0]))):
            raise Refused(
                f"{self.problem.name}.py is not deterministic: inputs at shape {shape!r} differ although the seed is "
                "the same; draw from the given generator only"
            )

    def _check_depends(self, shape: str, inputs: list[Any], native: list[Any]) -> None:
        """Numbers alone may be the same whatever the inputs are; of tensors the wrong answers show that."""
        if not all(isinstance(one, int | float) for one in native):
            return
        others = brought(self.subject.draw(shape, _FIXED_SEEDS[1]))
        again = _reference_from(_FIXED_SEEDS[0], self.subject, self.problem, others)
        if _same(native, again) and not _same(inputs, others):
            raise Refused(
                f"{self.problem.name}.py decides nothing: the reference returns {', '.join(map(repr, native))} for "
                f"different inputs at shape {shape!r}; return what is computed from them"
            )

    def kinds(self) -> tuple[InputKind, ...]:
        """The inputs made from the problem's own, now that all shapes were examined.

        Raises:
            Refused: a wrong answer passes on them, too.
        """
        battery = Battery(self.subject, self.problem, _FIXED_SEEDS[0], self.sizes, self.took, self.passing, self.lone)
        found = battery.examined()
        if battery.passing:
            raise Refused(
                f"{self.problem.name}.py decides nothing: {battery.passing[0]} passes as the right answer on all "
                "inputs that candidates would be checked on; change its inputs or its tolerance"
            )
        return found

    def held_out(self) -> tuple[InputKind, ...]:
        """Whether shapes can be made up that the problem does not name. Those tried here are none that is judged on."""
        found: list[InputKind] = []
        for base in held_out.bases(self.sizes, self.subject.shapes):
            for kind in held_out.HELD_OUT_KINDS:
                made = held_out.made_up(self.subject.sizes, base, kind, self.sizes[base], _FIXED_SEEDS[0])
                if made is None:
                    continue
                refused = self._refused_at(base, made)
                found.append(InputKind(name=kind, shape=base, refused=refused))
                if not refused:
                    break
        if found:
            return tuple(found)
        is_module = self.problem.format is ProblemFormat.kernelbench
        why = held_out.ONE_SHAPE if is_module else held_out.NO_SIZES
        return (InputKind(name=held_out.HELD_OUT, shape=self.subject.shapes[0], refused=why),)

    def _refused_at(self, base: str, made: dict[str, int]) -> str:
        try:
            elsewhere(self.subject, self.problem, base, made, _FIXED_SEEDS[0], self.usual[base], self.took[base])
        except Meaningless as why:
            return str(why)
        return ""


def _left_out(main: ShapeFacts) -> tuple[InputKind, ...]:
    """What candidates are not checked on because it is too large."""
    why = left_out(sum(map(_bytes, main.inputs)), sum(map(_bytes, main.outputs)))
    return (InputKind(name="more_sets", shape=main.name, refused=why),) if why else ()


def _check_tolerance(subject: Subject, problem: Open) -> None:
    try:
        read_tolerance(subject.tolerance)
    except ProblemError as error:
        raise Refused(f"{problem.name}.py: {error}") from None


def _drawn(subject: Subject, problem: Open, shape: str) -> list[Any]:
    """Inputs at ``shape`` in main memory, made sure to be ones that a candidate can be given."""
    inputs = subject.draw(shape, _FIXED_SEEDS[0])
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.device not in (torch.device("cpu"), here().device):
            raise Refused(
                f"{problem.name}.py asks for {value.device.type}, pool {problem.device} has none; make its tensors "
                "on the cpu"
            )
        _check_value(problem, subject, index, value)
    return [values.mapped(value, torch.Tensor.cpu) for value in inputs]


def _check_value(problem: Open, subject: Subject, index: int, value: Any) -> None:
    allowed = (torch.Tensor, bool, int, float, str, type(None), torch.dtype)
    for leaf in values.leaves(value):
        if not isinstance(leaf, allowed):
            name = subject.signature[index] if index < len(subject.signature) else str(index)
            raise Refused(f"{problem.name}.py: input {name} is a {type(leaf).__name__}; give tensors or numbers")


def _same(one: list[Any], other: list[Any]) -> bool:
    left, right = values.leaves(one), values.leaves(other)
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return False
        if isinstance(a, torch.Tensor):
            if a.shape != b.shape or a.dtype != b.dtype:
                return False
            if not torch.equal(a, b) and not bool(((a == b) | ((a != a) & (b != b))).all()):
                return False
        elif a != b and a == a:
            return False
    return True


def _check_deterministic(subject: Subject, problem: Open, shape: str, inputs: list[Any], native: list[Any]) -> None:
    """Run the reference once more, from another state of the global generators than ``native`` came from.

    Not against the oracle: that is a call too, and a random one makes a bound that lets everything pass.
    """
    again = _reference_from(_FIXED_SEEDS[1], subject, problem, inputs)
    for index, (first, second) in enumerate(zip(native, again, strict=False)):
        if len(native) != len(again) or not _repeats(first, second):
            raise Refused(
                f"{problem.name}.py is not deterministic: output {index} of the reference differs between two calls on "
                f"the same inputs at shape {shape!r}; a random step must become an input"
            )


def _reference_from(seed: int, subject: Subject, problem: Open, inputs: list[Any]) -> list[Any]:
    torch.manual_seed(seed)
    return reference_outputs(subject, problem, inputs)


def _repeats(one: Any, other: Any) -> bool:
    """Whether two answers are the same but for the order of additions among threads."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return _same([one], [other])
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if not one.dtype.is_floating_point or one.numel() == 0:
        return _same([one], [other])
    slack = _ORDER_SLACK * torch.finfo(one.dtype).eps
    size = here().chunk
    scale, _ = rms_of_finite(one.reshape(-1), size)
    pairs = zip(one.reshape(-1).split(size), other.reshape(-1).split(size), strict=True)
    return all(torch.allclose(a.double(), b.double(), rtol=slack, atol=slack * scale, equal_nan=True) for a, b in pairs)


def _shape_facts(subject: Subject, name: str, inputs: list[Any], targets: list[Target]) -> ShapeFacts:
    outputs = tuple(
        InputFact(name=f"output_{index}", kind=target.kind, shape=target.shape, dtype=target.dtype)
        for index, target in enumerate(targets)
    )
    named = zip(_names(subject.signature, len(inputs)), inputs, strict=True)
    return ShapeFacts(name=name, inputs=tuple(_fact(key, value) for key, value in named), outputs=outputs)


def _names(signature: tuple[str, ...], count: int) -> list[str]:
    """A name for each input; those of a variadic parameter are numbered."""
    if len(signature) >= count:
        return list(signature[:count])
    last = signature[-1] if signature else "argument"
    head = list(signature[:-1])
    return head + [f"{last}_{index}" for index in range(count - len(head))]


def _fact(name: str, value: Any) -> InputFact:
    if isinstance(value, torch.Tensor):
        return InputFact(name=name, kind="tensor", shape=tuple(value.shape), dtype=values.dtype_name(value.dtype))
    kind = type(value).__name__
    return InputFact(
        name=name, kind=kind if kind in ("int", "float", "bool") else "other", literal=described(value)[:MOST_LITERAL]
    )


def _parameters(subject: Subject) -> dict[str, InputFact]:
    setup = subject.setup()
    return {} if setup is None else {name: _fact(name, tensor) for name, tensor in setup[1].items()}


def _dtype_to_match(targets: list[Target]) -> str:
    floating = [target.dtype or target.kind for target in targets if target.floating]
    return floating[0] if floating else targets[0].dtype or targets[0].kind


def _capture(subject: Subject, inputs: list[Any]) -> tuple[Graph | None, Work | None, str]:
    """The graph and the work counted from it; a reference that cannot be captured is searched without."""
    from .. import capture

    if subject.backward:
        return None, None, "it asks for the backward pass, too, and only forward passes are captured"
    names = _names(subject.signature, len(inputs))
    try:
        graph = attempt(lambda: capture.capture(subject.call, inputs, names))
        return graph, attempt(lambda: capture.count_work(graph)), ""
    except Refused as refused:
        return None, None, str(refused)


def _counted(work: Work | None, shape: ShapeFacts, parameters: dict[str, InputFact], needed: int) -> Work:
    """What the graph says, but outputs as they came out: of sizes that depend on data the graph knows only a limit.

    ``needed`` are the bytes that must be read.
    """
    by_size = _work_by_size(shape, parameters)
    if work is None:
        return by_size
    counted = msgspec.structs.replace(work, write_bytes=by_size.write_bytes)
    # By the graph an output that is a view of an input costs nothing.
    written = min(work.write_bytes, by_size.write_bytes)
    return msgspec.structs.replace(counted, needed_bytes=min(needed, counted.read_bytes) + written)


def _work_by_size(shape: ShapeFacts, parameters: dict[str, InputFact]) -> Work:
    """Work where there is no graph: everything read and written once, one operation for each output element."""
    read = sum(map(_bytes, (*shape.inputs, *parameters.values())))
    return Work(read_bytes=read, write_bytes=sum(map(_bytes, shape.outputs)), flops=sum(map(_count, shape.outputs)))


def _count(fact: InputFact) -> int:
    return math.prod(fact.shape)


def _bytes(fact: InputFact) -> int:
    return bytes_of(fact.shape, fact.dtype)


def _operators(graph: Graph | None) -> tuple[str, ...]:
    if graph is None:
        return ()
    return tuple(sorted({node.target for node in graph.nodes if node.op == "call" and node.target.startswith("aten")}))
