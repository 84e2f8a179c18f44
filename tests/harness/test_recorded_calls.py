"""Calls that are recorded on many input sets: what is replayed, on which data, and what of it is kept."""

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelswarm.hardware.harness.calls.answering import Refused
from kernelswarm.hardware.harness.calls.cuda_graphs import CannotRecord, Recording
from kernelswarm.hardware.harness.calls.recorded_calls import Graphs
from kernelswarm.hardware.harness.inputs.case import Case
from kernelswarm.hardware.harness.inputs.input_sets import InputSets
from kernelswarm.hardware.harness.messages.batch import Lay
from kernelswarm.hardware.harness.messages.commands import Expected
from kernelswarm.hardware.harness.messages.recording import APART, COLD, WARM, Record
from kernelswarm.hardware.harness.messages.timing import IDLE, Time
from kernelswarm.hardware.harness.recorded_sets import calls_in_a_recording, halves, laid
from kernelswarm.hardware.harness.replayed import Replayed
from kernelswarm.hardware.harness.tensors import values
from kernelswarm.hardware.harness.timing.interleaved import CANDIDATE, Part
from kernelswarm.hardware.processes.arguments import Values
from kernelswarm.schemas import Series

SETS = 5
CALL_NS = 1000


class _Recording:
    def __init__(self, body: Callable[[], list[Any]], outputs: list[Any]) -> None:
        self._body = body
        self.outputs = outputs
        self._memory = [tensor.detach() for tensor in values.tensors_of(outputs)]

    def replay(self) -> None:
        for buffer, output in zip(self._memory, values.tensors_of(self._body()), strict=True):
            buffer.copy_(output)


class Processor:
    """A recorder that replays by calling again, and takes a microsecond for each call."""

    def __init__(self) -> None:
        self.calls = 0

    def record(self, body: Callable[[], list[Any]]) -> Recording:
        return _Recording(body, body())

    def elapsed_ns(self, recording: Recording, times: int, before: Recording | None = None) -> int:
        calls = 0
        for _ in range(times):
            if before is not None:
                before.replay()
            calls -= self.calls
            recording.replay()
            calls += self.calls
        return calls * CALL_NS


@pytest.fixture
def recorder() -> Processor:
    return Processor()


@pytest.fixture
def graphs(recorder: Processor) -> Graphs:
    return Graphs(recorder, torch.device("cpu"))


def _sets(first: int, count: int = SETS) -> tuple[Lay, int, list[torch.Tensor]]:
    drawn = [torch.arange(1000.0) + 1000.0 * (first + number) for number in range(count)]
    described, stride, _, file = values.pack_sets([[tensor] for tensor in drawn], alike=True)
    return Lay(inputs=described, stride=stride, sets=count), file, drawn


def _lay(graphs: Graphs, first: int, *, later: bool = False) -> list[torch.Tensor]:
    command, file, drawn = _sets(first)
    graphs.lay(Lay(inputs=command.inputs, stride=command.stride, sets=SETS, later=later), file, None)
    os.close(file)
    return drawn


def _doubled(recorder: Processor) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        recorder.calls += 1
        return 2 * x

    return call


def test_a_batch_is_passes_over_all_sets_and_counts_as_many_calls_as_asked(graphs: Graphs, recorder: Processor) -> None:
    _lay(graphs, 0)
    assert not graphs.record(_doubled(recorder), Record()).reason

    for calls in (1, SETS, 3 * SETS + 1):
        assert graphs.time(Time(calls=calls, form=COLD)).ns == calls * CALL_NS
    assert graphs.time(Time(calls=7, form=WARM)).ns == 7 * CALL_NS


def test_every_call_of_the_last_replay_has_its_output_kept(graphs: Graphs, recorder: Processor) -> None:
    drawn = _lay(graphs, 0)
    graphs.record(_doubled(recorder), Record())

    graphs.time(Time(calls=SETS, form=COLD))
    graphs.time(Time(calls=SETS, form=WARM))

    for number, x in enumerate(drawn):
        (output,) = graphs.outputs(number)
        assert torch.equal(output, 2 * x)


def test_what_is_looked_at_is_the_memory_that_replays_write(graphs: Graphs, recorder: Processor) -> None:
    """An output that is given other memory once it is recorded, with the answer in it, would never be overwritten."""
    drawn = _lay(graphs, 0)
    returned: list[torch.Tensor] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        returned.append(2 * x)
        return returned[-1]

    assert not graphs.record(call, Record()).reason
    for output in returned:
        output.set_(torch.full_like(output, 7.0))
    graphs.time(Time(calls=SETS, form=COLD))
    assert all(torch.equal(graphs.outputs(number)[0], 2 * x) for number, x in enumerate(drawn))


def test_an_output_whose_memory_is_another_one_than_it_was_is_not_looked_at(
    graphs: Graphs, recorder: Processor
) -> None:
    _lay(graphs, 0)
    returned: list[torch.Tensor] = []

    class Answers(list[torch.Tensor]):
        """Has the tensors that are made of its own."""

        def __init__(self, given: list[torch.Tensor]) -> None:
            super().__init__(given)
            returned.extend(given)

    assert not graphs.record(lambda x: Answers([2 * x]), Record()).reason
    graphs.time(Time(calls=SETS, form=COLD))
    graphs.outputs(0)
    for output in returned:
        output.untyped_storage().resize_(1 << 20)
    with pytest.raises(Refused, match="lies elsewhere"):
        graphs.outputs(0)


def test_a_recording_that_does_not_write_the_answer_is_none(graphs: Graphs, recorder: Processor) -> None:
    """Kernels that are launched on another stream than the current one run while they are recorded, and never again."""
    _lay(graphs, 0)
    cached_outputs: dict[int, torch.Tensor] = {}

    recorded = graphs.record(lambda x: cached_outputs.setdefault(x.data_ptr(), 2 * x), Record())

    assert "another stream than the current one" in recorded.reason


def test_calls_of_nothing_are_recorded_although_no_replay_writes_what_they_return(graphs: Graphs) -> None:
    """Without them no baseline was replayed: every time on a GPU was one of calls with their launches."""
    _lay(graphs, 0)
    nothing = torch.zeros(1)

    assert not graphs.record(lambda *inputs: nothing, Record(name=IDLE)).reason


def test_new_sets_arrive_directly_before_they_are_replayed_each_intact_only_around_its_call(
    graphs: Graphs, recorder: Processor
) -> None:
    _lay(graphs, 0)
    seen: list[torch.Tensor] = []
    others: list[bool] = []
    tensors: list[torch.Tensor] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        recorder.calls += 1
        if all(tensor.data_ptr() != x.data_ptr() for tensor in tensors):
            tensors.append(x)
        seen.append(x.clone())
        others.extend(_is_intact(tensor) for tensor in tensors if tensor.data_ptr() != x.data_ptr())
        return 2 * x

    graphs.record(call, Record())
    graphs.time(Time(calls=SETS, form=APART))
    fresh = _lay(graphs, 100, later=True)
    assert all(float(x.max()) < 100_000 for x in tensors), "they have arrived already"
    seen.clear()
    others.clear()

    timed = graphs.time(Time(calls=SETS, form=APART))

    assert timed.ns == SETS * CALL_NS
    assert all(torch.equal(got, expected) for got, expected in zip(seen, fresh, strict=True))
    assert len(others) == SETS * (SETS - 1) and not any(others)
    for number, x in enumerate(fresh):
        assert torch.equal(graphs.outputs(number)[0], 2 * x)


def _is_intact(x: torch.Tensor) -> bool:
    return bool((x[1:] - x[:-1] == 1).all())


@pytest.mark.parametrize(("form", "written"), [(COLD, SETS), (APART, 3 * SETS)])
def test_outputs_are_overwritten_before_passes(graphs: Graphs, recorder: Processor, form: str, written: int) -> None:
    """Once in a batch is not enough where a speedup is capped: in later passes a kernel left what held the answer."""
    _lay(graphs, 0)
    outputs: dict[int, torch.Tensor] = {}
    left: list[bool] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        recorder.calls += 1
        output = outputs.setdefault(x.data_ptr(), torch.empty_like(x))
        left.append(torch.equal(output, 2 * x))
        return output.copy_(2 * x)

    assert not graphs.record(call, Record()).reason
    left.clear()

    assert graphs.time(Time(calls=3 * SETS, form=form)).ns == 3 * SETS * CALL_NS
    assert len(left) == 3 * SETS and left.count(False) == written


def test_what_cannot_be_recorded_says_why(graphs: Graphs, recorder: Processor) -> None:
    _lay(graphs, 0)

    def record(body: Callable[[], list[Any]]) -> Recording:
        raise CannotRecord("the graph holds a function on the processor")

    recorder.record = record  # type: ignore[method-assign]

    assert graphs.record(_doubled(recorder), Record()).reason == "the graph holds a function on the processor"


@pytest.fixture
def supply() -> Iterator[InputSets]:
    command, file, _ = _sets(0, 40)
    yield InputSets(file, command.inputs, command.stride, 40, 4000, {number: number for number in range(3, 9)})
    os.close(file)


def test_both_halves_of_a_pool_hold_sets_whose_answers_are_known(supply: InputSets) -> None:
    first, second = halves(supply, 20)

    assert sorted(first + second) == list(range(40))
    for part in (first, second):
        assert len(part) == 20 and len(set(part) & set(supply.cases)) == 3


async def test_what_is_laid_are_the_sets_in_that_order(supply: InputSets, graphs: Graphs, recorder: Processor) -> None:
    message, file = await laid(supply, [7, 3, 30])
    graphs.lay(message, file, None)
    os.close(file)
    graphs.record(_doubled(recorder), Record())
    graphs.time(Time(calls=3, form=COLD))

    assert [float(graphs.outputs(place)[0][0]) for place in range(3)] == [14_000.0, 6000.0, 60_000.0]


def test_a_recording_has_as_many_calls_as_leave_no_set_in_the_cache() -> None:
    def case(size: int) -> Case:
        output = Expected(kind="tensor", dtype="float32", shape=(size // 4,), reference_error=0.0, bound=1.0)
        return Case(0, "main", 1, Values(items=(), size=size), -1, (output,))

    cache = 60 << 20
    assert calls_in_a_recording(case(1 << 20), cache) == 90
    assert calls_in_a_recording(case(1 << 28), cache) == 3
    assert calls_in_a_recording(case(16), cache) == 512
    flushed = [calls_in_a_recording(case(1 << power), cache, flush=True) for power in (4, 20, 28)]
    assert flushed == [16, 16, 3], "the cache is emptied before each of them"


@pytest.mark.parametrize(("asked", "made"), [(1, 3), (3, 3), (4, 6)])
def test_clocks_are_compared_on_as_many_calls_as_are_replayed(asked: int, made: int) -> None:
    """Of large inputs one call was asked for and three replayed: our clock saw three, and nobody's agreed with it."""
    timing = SimpleNamespace(recordings=SimpleNamespace(calls=3))
    untrusted = SimpleNamespace(worker=SimpleNamespace(pid=0))
    assert Replayed(timing, timing, untrusted, None, None)._in_full(asked) == made  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("among_us", "apart_us", "excused_us", "counted_us"),
    [
        (22.9, 26.7, 0.0, 22.9), (79.0, 84.7, 0.0, 79.0), (15.9, 21.0, 0.0, 16.23), (0.3, 9.1, 0.0, 9.01),
        (5.0, 20.0, 10.0, 18.5), (100.0, 120.0, 3.0, 111.0), (100.0, 130.0, 50.0, 114.0),
    ],
)  # fmt: skip
async def test_a_call_counts_as_it_is_where_its_inputs_come_at_its_turn(
    among_us: float, apart_us: float, excused_us: float, counted_us: float
) -> None:
    """The first three are honest, by authors outside the project; the next two compute calls together."""
    recordings = SimpleNamespace(warm_ns={}, apart_ns=excused_us * 1e3)
    timing = SimpleNamespace(recordings=recordings)
    process = Replayed(timing, timing, SimpleNamespace(worker=SimpleNamespace(pid=0)), None, None)  # type: ignore[arg-type]
    process.apart_ns = apart_us * 1e3
    series = [Series(name=name, samples_ns=(round(us * 1e3),) * 4, calls=8) for name, us in
              (("compile", 269.0), (CANDIDATE, among_us))]  # fmt: skip
    alone = process.alone_ns(Part(tuple(series)))
    assert alone["compile"] == 269e3 and alone[CANDIDATE] == pytest.approx(counted_us * 1e3)
