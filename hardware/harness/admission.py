"""The admission's process: finds out whether a problem can be searched, and all that the search must know of it."""

import math
import socket
import time
from typing import Any

import msgspec
import torch

from ...schemas import Graph, InputFact, ProblemError, ProblemFacts, ShapeFacts, Work
from . import values
from .answering import Refused, attempt, serve_commands
from .bounds import read_tolerance
from .compare import Target
from .meaning import is_slow, kinds_of
from .messages import Admit, Admitted, Open, Spawn
from .needed import needed_bytes
from .place import brought
from .reference import prepare_process
from .subject import Subject, open_subject
from .targets import reference_outputs, targets_of

_ORDER_SLACK = 256
"""Units in the last place that two runs of one reference may differ by."""

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
    # In main memory: the graph names no device, and candidates put their tensors where the inputs are.
    graph, work, capture_error = _capture(subject)
    subject.bring()
    shapes: list[ShapeFacts] = []
    float64, dtype, needed = True, "", 0
    took: dict[str, float] = {}
    for name in subject.shapes:
        inputs = brought(_draw_checked(subject, problem, name))
        began = time.monotonic()
        targets = targets_of(subject, problem, inputs)
        took[name] = time.monotonic() - began
        _check_deterministic(subject, problem, name, inputs)
        if not shapes:
            _check_discriminating(problem, name, inputs, targets)
            needed = 0 if is_slow(took[name]) else needed_bytes(subject, inputs)
        float64 = float64 and all(target.float64 for target in targets)
        dtype = dtype or _dtype_to_match(targets)
        shapes.append(_shape_facts(subject, name, inputs, targets))
    parameters = _parameters(subject)
    return Admitted(
        facts=ProblemFacts(
            signature=subject.signature,
            shapes=tuple(shapes),
            graph=graph,
            work=_counted(work, shapes[0], parameters, needed),
            dtype=dtype,
            float64_oracle=float64,
            capture_error=capture_error,
            parameters=parameters,
            is_module=subject.setup() is not None,
            operators=_operators(graph),
            input_kinds=kinds_of(subject, problem, _FIXED_SEEDS[0], took),
        )
    )


def _check_tolerance(subject: Subject, problem: Open) -> None:
    try:
        read_tolerance(subject.tolerance)
    except ProblemError as error:
        raise Refused(f"{problem.name}.py: {error}") from None


def _draw_checked(subject: Subject, problem: Open, shape: str) -> list[Any]:
    """Inputs at ``shape``, made sure to be ones that a candidate can be given."""
    inputs = subject.draw(shape, _FIXED_SEEDS[0])
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise Refused(
                f"{problem.name}.py asks for {value.device.type}, pool {problem.device} has none; make its tensors "
                "on the cpu"
            )
        _check_value(problem, subject, index, value)
    again = subject.draw(shape, _FIXED_SEEDS[0])
    if not _same(inputs, again):
        raise Refused(
            f"{problem.name}.py is not deterministic: inputs at shape {shape!r} differ although the seed is the same; "
            "draw from the given generator only"
        )
    return inputs


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
            if a.shape != b.shape or a.dtype != b.dtype or not bool(((a == b) | ((a != a) & (b != b))).all()):
                return False
        elif a != b and a == a:
            return False
    return True


def _check_deterministic(subject: Subject, problem: Open, shape: str, inputs: list[Any]) -> None:
    """Run the reference twice from different states of the global generators.

    Not against the oracle: that is a call too, and a random one makes a bound that lets everything pass.
    """
    one, other = (_reference_from(seed, subject, problem, inputs) for seed in _FIXED_SEEDS)
    for index, (first, second) in enumerate(zip(one, other, strict=False)):
        if len(one) != len(other) or not _repeats(first, second):
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
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if not one.dtype.is_floating_point or one.numel() == 0:
        return _same([one], [other])
    a, b = one.double(), other.double()
    slack = _ORDER_SLACK * torch.finfo(one.dtype).eps
    scale = float(torch.nan_to_num(a, posinf=0.0, neginf=0.0).pow(2).mean().sqrt())
    return bool(torch.allclose(a, b, rtol=slack, atol=slack * scale, equal_nan=True))


def _check_discriminating(problem: Open, shape: str, inputs: list[Any], targets: list[Target]) -> None:
    """A trivial answer must be a wrong answer, for one output at least."""
    for name, guess in _guesses(inputs):
        if all(target.accepts(guess(target)) for target in targets):
            raise Refused(
                f"{problem.name}.py decides nothing at shape {shape!r}: {name} passes as the right answer; change its "
                "inputs or its tolerance"
            )


def _guesses(inputs: list[Any]) -> list[tuple[str, Any]]:
    constants = [(f"an answer of all {value}", value) for value in (0, 1)]
    guesses: list[tuple[str, Any]] = [(name, lambda t, value=value: t.filled(value)) for name, value in constants]
    # The mean of a single number is that number: it says nothing about a problem that reduces to one, like a loss.
    guesses.append(("a constant (the mean)", lambda t: t.filled(t.mean()) if math.prod(t.shape) > 1 else None))
    guesses.append(("the first row alone", lambda t: t.of_first_row(everywhere=False)))
    guesses.append(("the first row everywhere", lambda t: t.of_first_row(everywhere=True)))
    for index, tensor in enumerate(values.tensors_of(inputs)):
        guesses.append((f"input {index} itself", lambda t, tensor=tensor: tensor if t.fits(tensor) else None))
    return guesses


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
    return InputFact(name=name, kind=kind if kind in ("int", "float", "bool") else "other")


def _parameters(subject: Subject) -> dict[str, InputFact]:
    setup = subject.setup()
    return {} if setup is None else {name: _fact(name, tensor) for name, tensor in setup[1].items()}


def _dtype_to_match(targets: list[Target]) -> str:
    floating = [target.dtype or target.kind for target in targets if target.floating]
    return floating[0] if floating else targets[0].dtype or targets[0].kind


def _capture(subject: Subject) -> tuple[Graph | None, Work | None, str]:
    """The graph and the work counted from it; a reference that cannot be captured is searched without."""
    from .. import capture

    if subject.backward:
        return None, None, "it asks for the backward pass, too, and only forward passes are captured"
    inputs = subject.draw(subject.shapes[0], _FIXED_SEEDS[0])
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
    count = 1
    for extent in fact.shape:
        count *= extent
    return count


def _bytes(fact: InputFact) -> int:
    return _count(fact) * (getattr(torch, fact.dtype).itemsize if fact.dtype else 8)


def _operators(graph: Graph | None) -> tuple[str, ...]:
    if graph is None:
        return ()
    return tuple(sorted({node.target for node in graph.nodes if node.op == "call" and node.target.startswith("aten")}))
