"""The validation process: decides whether a problem can be searched, and collects the facts that a search needs."""

import contextlib
import math
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from ....schemas import Graph, InputFact, ProblemError, ProblemFacts, Ref, ShapeFacts, Work
from ...machine.floors import dense_operations
from ...machine.work import count_work
from ...processes.messages import HOST, Spawn
from ..calls.answering import Refused, attempt, serve_commands
from ..calls.backward import differentiated
from ..calls.sleeping_threads import sleep_while_waiting
from ..calls.state import held
from ..inputs.graph_sizes import largest_live_bytes, results_of
from ..inputs.sizes import bytes_of, wide_bytes_of
from ..messages.commands import Open, ProblemValidated, ValidateProblem
from ..messages.state import ATTRIBUTE
from ..reference.effects import names_of
from ..reference.examination import Examination, bytes_in, drawn, examined, fact_of
from ..reference.problem import ReferenceProblem, open_reference
from ..tensors import values
from ..tensors.bounds import read_tolerance
from ..tensors.right_answer import LARGE
from ..tensors.tensor_placement import current_device
from .reference import prepare_process

MOST_COPIED = 1 << 20
"""Bytes of a tensor of which capturing is given the numbers."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    prepare_process(request)
    sleep_while_waiting(request.threads)
    serve_commands(channel, {ValidateProblem: _validate})


def _validate(command: ValidateProblem, descriptors: list[int]) -> ProblemValidated:
    if not command.memory_bytes:
        return validated(command.problem)
    device = current_device()
    device.limit(command.memory_bytes)
    limit = Limit(command.memory_bytes)
    try:
        return validated(command.problem, limit)
    finally:
        # Whatever came of it: who goes on without the memory, or fails for another reason then, has other facts.
        if device.shortages:
            raise limit.refused(command.problem)


@dataclass
class Limit:
    """Of an accelerator's memory: what a problem's tensors may take, and what they are expected to take."""

    size: int
    expected: int = 0
    """0: not known."""

    def check(self, problem: Open, inputs: list[Any], graph: Graph | None) -> None:
        """Expect what examining ``problem`` takes, on ``inputs`` like these.

        They are there as drawn and in float64, answers as the reference gives them and in float64, and intermediates in
        float64. Answers to moved inputs are kept beside them up to a size, and measured one by one from there on.

        Raises:
            Refused: inputs and answers alone, as they are and in float64, take more.
        """
        drawn = [(tensor.shape, values.dtype_name(tensor.dtype)) for tensor in values.tensors_of(inputs)]
        results, live = ([], 0) if graph is None else (results_of(graph), largest_live_bytes(graph, wide_bytes_of))
        least = sum(bytes_of(*form) + wide_bytes_of(*form) for form in (*drawn, *results))
        moved = sum(wide_bytes_of(*form) for form in results if math.prod(form[0]) <= LARGE)
        self.expected = least + moved + live
        if least > self.size:
            raise self.refused(problem)

    def refused(self, problem: Open) -> Refused:
        """That they take more."""
        message = f"{problem.name}.py takes more memory than its limit"
        return Refused(message, kind="memory", needed_bytes=self.expected)


def validated(problem: Open, limit: Limit | None = None) -> ProblemValidated:
    """All that the search must know of ``problem``, examined in this process.

    Raises:
        Refused: it cannot be searched, or not within ``limit``.
    """
    reference = open_reference(problem)
    _check_tolerance(reference, problem)
    main = drawn(reference, problem, reference.shapes[0])
    others = (_stand_ins(drawn(reference, problem, name)) for name in reference.shapes[1:])
    with _weights_stood_in_for(reference.module):
        captured = _capture(reference, _stand_ins(main), others)
        further = {
            name: _capture(reference, _stand_ins(drawn(reference, problem, name))) for name in list(reference.timed)[1:]
        }
    if limit is not None:
        limit.check(problem, main, captured.graph)
    reference.move_to_device()
    examination = examined(reference, problem, main)
    parameters = _parameters(examination.reference)
    main_shape = examination.shapes[0]
    work = _counted(captured.work, main_shape, parameters, examination)
    captured = of_same_types(captured, main_shape.outputs)
    return ProblemValidated(
        facts=ProblemFacts(
            signature=reference.signature,
            shapes=tuple(
                _timed_facts(shape, further.get(shape.name), parameters, examination) for shape in examination.shapes
            ),
            graph=captured.graph,
            graphs_elsewhere=captured.elsewhere,
            backward_graph=captured.backward,
            work=work,
            dtype=examination.dtype,
            float64_oracle=examination.float64,
            capture_error=captured.error,
            parameters=parameters,
            is_module=reference.module is not None,
            state=examination.state,
            operators=_operators(captured.graph),
            error_bound=examination.error_bound(main_shape.name),
            error_bounds=examination.error_bounds[main_shape.name] or {},
            tf32_convolutions=examination.is_tf32,
            input_kinds=examination.input_kinds(),
            weight_exponents=examination.problem.weight_exponents,
            distance=examination.distance,
            peak_bytes=examination.peak_bytes,
        )
    )


def _stand_ins(inputs: list[Any]) -> list[Any]:
    """Inputs to capture with, in main memory: the graph names no device, and candidates put their tensors where the
    inputs are. Capturing knows nothing of large ones but sizes, and to copy 6 GB from a device takes 6 s."""
    return [values.mapped(value, _stand_in) for value in inputs]


@contextlib.contextmanager
def _weights_stood_in_for(module: torch.nn.Module | None) -> Iterator[None]:
    """The same of parameters and buffers that a device drew."""
    registered = [] if module is None else [*module.parameters(), *module.buffers()]
    tensors = [tensor for tensor in registered if tensor.device.type != HOST]
    drawn_data = [tensor.data for tensor in tensors]
    try:
        for tensor, data in zip(tensors, drawn_data, strict=True):
            tensor.data = _stand_in(data)
        yield
    finally:
        for tensor, data in zip(tensors, drawn_data, strict=True):
            tensor.data = data


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == HOST or tensor.layout is not torch.strided or tensor.nbytes <= MOST_COPIED:
        return tensor.cpu()
    return torch.empty_like(tensor, device=HOST)


def _check_tolerance(reference: ReferenceProblem, problem: Open) -> None:
    try:
        read_tolerance(reference.tolerance)
    except ProblemError as error:
        raise Refused(f"{problem.name}.py: {error}") from None


def _parameters(reference: ReferenceProblem) -> dict[str, InputFact]:
    """Parameters and buffers, also those that ``state_dict`` leaves out."""
    if reference.module is None:
        return {}
    reference.restart()
    return {
        name: msgspec.structs.replace(fact_of(name, member.value), role=member.kind)
        for name, member in held(reference.module).items()
        if member.kind != ATTRIBUTE and isinstance(member.value, torch.Tensor)
    }


@dataclass(frozen=True)
class Captured:
    """What was captured of the reference; without a graph it is searched without."""

    graph: Graph | None = None
    backward: Graph | None = None
    work: Work | None = None
    error: str = ""
    elsewhere: tuple[Graph, ...] = ()


def _capture(reference: ReferenceProblem, inputs: list[Any], others: Iterable[list[Any]] = ()) -> Captured:
    names = names_of(reference.signature, len(inputs))
    try:
        return attempt(lambda: _captured(reference, inputs, others, names))
    except Refused as refused:
        return Captured(error=str(refused))


def _captured(
    reference: ReferenceProblem, inputs: list[Any], others: Iterable[list[Any]], names: list[str]
) -> Captured:
    from ...capture import capture

    try:
        if not reference.backward:
            graph = capture.capture(reference.forward, inputs, names)
            elsewhere = capture.capture_elsewhere(reference.forward, graph, others, names)
            return Captured(graph, None, count_work(graph), elsewhere=elsewhere)
        graph = capture.capture(reference.forward, inputs[:-1], names[:-1])
        joint, gradients = capture.capture_backward(reference.forward, differentiated, inputs, names)
        return Captured(graph, gradients, count_work(joint))
    except ProblemError as error:
        return Captured(error=str(error))


def of_same_types(captured: Captured, outputs: tuple[InputFact, ...]) -> Captured:
    """What was captured in main memory; without its graph if that gives other types than the reference's ``outputs``.

    Under ``torch.autocast("cuda")`` a device computes in a shorter type, main memory as ever.
    """
    if captured.graph is None:
        return captured
    values = {node.name: node.values for node in captured.graph.nodes}
    results = [values[arg.name] for arg in captured.graph.nodes[-1].args if isinstance(arg, Ref)]
    tensors = [fact for fact in outputs if fact.kind == "tensor"]
    # Gradients come behind them.
    tensors = tensors if captured.backward is None else tensors[: len(results)]
    if len(results) != len(tensors):
        return captured
    for number, (metas, fact) in enumerate(zip(results, tensors, strict=True)):
        if metas and metas[0].dtype != fact.dtype:
            error = f"output {number} is {fact.dtype} on the device, and {metas[0].dtype} where it is captured"
            return replace(captured, graph=None, backward=None, elsewhere=(), error=f"{error}: autocast, most likely")
    return captured


def _counted(work: Work | None, shape: ShapeFacts, parameters: dict[str, InputFact], examination: Examination) -> Work:
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
    shape: ShapeFacts, captured: Captured | None, parameters: dict[str, InputFact], examination: Examination
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
        error_bound=examination.error_bound(shape.name),
    )


def _work_by_size(shape: ShapeFacts, parameters: dict[str, InputFact], final_state: tuple[InputFact, ...]) -> Work:
    """Work where there is no graph: everything read and written once, one operation for each element written."""
    read = sum(map(bytes_in, (*shape.inputs, *parameters.values())))
    written = (*shape.outputs, *final_state)
    return Work(read_bytes=read, write_bytes=sum(map(bytes_in, written)), flops=sum(map(_count, written)))


def _count(fact: InputFact) -> int:
    return math.prod(fact.shape)


def _operators(graph: Graph | None) -> tuple[str, ...]:
    if graph is None:
        return ()
    return tuple(sorted({node.target for node in graph.nodes if node.op == "call" and node.target.startswith("aten")}))
