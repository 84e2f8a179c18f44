"""What a validation reserves of a device's memory: a share that its process is held to, and all of it if need be."""

import asyncio
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from waiting import LIMIT_S

import given
from kernelswarm.hardware import device as device_module
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness import launcher as launcher_module
from kernelswarm.hardware.harness import memory_demand
from kernelswarm.hardware.harness.calls.answering import Refused
from kernelswarm.hardware.harness.children import problem_validation
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.harness.messages.commands import Open, ProblemValidated, ValidateProblem
from kernelswarm.hardware.harness.problem_memory import ProblemMemory
from kernelswarm.hardware.harness.tensors import tensor_placement
from kernelswarm.hardware.harness.validation_process import OutOfMemory, validate_problem
from kernelswarm.hardware.machine import reservations
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.machine.reservations import MemoryReservations
from kernelswarm.hardware.processes.messages import Ended, Failure
from kernelswarm.hardware.processes.worker import WorkerDied
from kernelswarm.schemas import Accelerator, HardwareFacts, Pool, Problem, ProblemError, ProblemFormat

GIB = 1 << 30
POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
GPU = Accelerator(index=0, name="GPU", uuid="u", target="sm_90", memory_bytes=80 * GIB)
GIANT = msgspec.structs.replace(GPU, memory_bytes=999 * GIB)
CAPACITY = 80 * GIB
SHARE = 10 * GIB
QUARTER = 20 * GIB
HALF = 40 * GIB
SHARES = [SHARE, QUARTER, HALF]
SAID = 40 * GIB + memory_demand.CONTEXT_BYTES
"""What 32 GiB and a margin of a quarter are with a context."""


def problem(name: str) -> Problem:
    return Problem(name=name, format=ProblemFormat.function, source=name, sha256=name)


def memory_of(home, accelerator: Accelerator | None = GPU) -> ProblemMemory:
    return ProblemMemory(MemoryReservations(POOL, home, CAPACITY), accelerator, lambda key: asyncio.sleep(0))


class Validations:
    """Attempts at validation that take ``needed`` bytes of tensors, and note what was reserved meanwhile."""

    def __init__(self, memory: ProblemMemory, needed: int = 0, said: int = 0) -> None:
        self.limits: list[int] = []
        self.reserved: list[list[int]] = []
        self._memory, self._needed, self._said = memory, needed, said

    async def attempt(self, memory_bytes: int) -> str:
        self.limits.append(memory_bytes)
        self.reserved.append(sorted(holding.size for holding in self._memory.reservations.holdings()))
        if self._needed > (memory_bytes or CAPACITY):
            raise OutOfMemory("it does not fit", self._said)
        return "facts"


async def test_a_validation_reserves_a_share_and_its_tensors_leave_room_for_the_context(tmp_path):
    memory = memory_of(tmp_path)
    validations = Validations(memory)
    assert await memory.validated(problem("a"), validations.attempt) == "facts"
    assert validations.reserved == [[SHARE]] and validations.limits == [SHARE - memory_demand.CONTEXT_BYTES]
    assert memory.reservations.holdings() == []


async def test_the_time_until_the_memory_is_there_is_known_while_it_is_waited_for(tmp_path):
    memory = memory_of(tmp_path)
    everything = await memory.reservations.reserve(CAPACITY, "large")
    waiting = asyncio.create_task(memory.validated(problem("a"), Validations(memory).attempt))
    await asyncio.sleep(0.05)
    assert memory.waited_s(problem("a")) > 0.0
    everything.release()
    await asyncio.wait_for(waiting, LIMIT_S)
    waited = memory.waited_s(problem("a"))
    await asyncio.sleep(0.02)
    assert memory.waited_s(problem("a")) == waited and memory.waited_s(problem("b")) == 0.0


async def test_two_that_wait_for_one_problem_count_once_and_leave_nothing_reserved(tmp_path):
    memory = memory_of(tmp_path)
    everything = await memory.reservations.reserve(CAPACITY, "large")
    began = time.monotonic()
    waiting = [asyncio.create_task(memory.validated(problem("a"), Validations(memory).attempt)) for _ in range(2)]
    await asyncio.sleep(0.05)
    everything.release()
    assert await asyncio.wait_for(asyncio.gather(*waiting), LIMIT_S) == ["facts", "facts"]
    assert memory.reservations.holdings() == []
    assert 0.05 <= memory.waited_s(problem("a")) <= time.monotonic() - began, "twice as long is what both waited"


@pytest.mark.parametrize(
    ("needed_gib", "reserved"),
    [(15, [SHARE, QUARTER]), (30, SHARES), (50, [*SHARES, CAPACITY]), (90, [*SHARES, CAPACITY])],
    ids=["a quarter is enough", "half is enough", "fits", "fits nowhere"],
)
async def test_what_a_share_is_too_little_for_is_done_again_with_more(tmp_path, needed_gib, reserved):
    memory = memory_of(tmp_path)
    validations = Validations(memory, needed_gib * GIB)
    if needed_gib * GIB < CAPACITY:
        assert await memory.validated(problem("a"), validations.attempt) == "facts"
    else:
        with pytest.raises(OutOfMemory):
            await memory.validated(problem("a"), validations.attempt)
    assert validations.reserved == [[size] for size in reserved]
    limits = [size - memory_demand.CONTEXT_BYTES for size in reserved]
    assert validations.limits == [*limits[:3], 0][: len(limits)], "with all of the memory there is no limit"
    assert memory.reservations.holdings() == []


@pytest.mark.parametrize(
    ("needed_gib", "said_gib", "shares"),
    [
        (35, 32, [SHARE, SAID]),
        (45, 32, [SHARE, SAID, CAPACITY]),
        (35, 70, [SHARE, CAPACITY]),
        (35, 5, SHARES),
    ],
    ids=["enough", "too little", "more than there is", "less than it had"],
)
async def test_a_validation_that_says_what_it_takes_has_that_next(tmp_path, needed_gib, said_gib, shares):
    memory = memory_of(tmp_path)
    validations = Validations(memory, needed_gib * GIB, said_gib * GIB)
    assert await memory.validated(problem("a"), validations.attempt) == "facts"
    assert validations.reserved == [[size] for size in shares]


async def test_what_is_wrong_with_a_problem_is_said_at_once(tmp_path):
    memory, limits = memory_of(tmp_path), []

    async def attempt(memory_bytes: int) -> str:
        limits.append(memory_bytes)
        raise ProblemError("it decides nothing")

    with pytest.raises(ProblemError, match="decides nothing"):
        await memory.validated(problem("a"), attempt)
    assert len(limits) == 1 and memory.reservations.holdings() == []


async def test_two_validations_run_beside_each_other_and_beside_a_large_problem(tmp_path):
    memory = memory_of(tmp_path)
    large = await memory.reservations.reserve(CAPACITY // 2, "large")
    together = asyncio.Barrier(2)

    async def attempt(memory_bytes: int) -> int:
        await asyncio.wait_for(together.wait(), LIMIT_S)
        return sum(holding.size for holding in memory.reservations.holdings())

    first, second = memory.validated(problem("a"), attempt), memory.validated(problem("b"), attempt)
    assert max(await asyncio.gather(first, second)) == CAPACITY // 2 + 2 * SHARE
    large.release()


async def test_a_validation_passes_a_large_problem_that_waits_but_one_with_all_of_the_memory_does_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(reservations, "PASSED_S", 0.0)
    memory, waiting = memory_of(tmp_path), asyncio.Event()
    held = await memory.reservations.reserve(HALF, "held")
    large = asyncio.create_task(memory.reservations.reserve(CAPACITY, "large", lambda text: waiting.set()))
    await asyncio.wait_for(waiting.wait(), LIMIT_S)
    fits, all_of_it = Validations(memory), Validations(memory, 50 * GIB)
    assert await asyncio.wait_for(memory.validated(problem("a"), fits.attempt), LIMIT_S) == "facts"
    last = asyncio.create_task(memory.validated(problem("b"), all_of_it.attempt))
    await asyncio.sleep(0.3)
    assert all_of_it.reserved == [[SHARE, HALF]] and not last.done(), "with more it waits like everybody"
    held.release()
    (await asyncio.wait_for(large, LIMIT_S)).release()
    assert await asyncio.wait_for(last, LIMIT_S) == "facts"


async def test_a_repeated_validation_waits_for_its_neighbours_and_others_are_told(tmp_path):
    memory, notices = memory_of(tmp_path), []
    large = await memory.reservations.reserve(CAPACITY // 2, "large")
    memory.notify(problem("a"), lambda text: (notices.append(text), text and large.release()))
    validations = Validations(memory, 50 * GIB)
    assert await asyncio.wait_for(memory.validated(problem("a"), validations.attempt), LIMIT_S) == "facts"
    assert validations.reserved == [*([size, HALF] for size in SHARES), [CAPACITY]]
    assert "waiting for 80.0 GiB" in notices[0] and notices[1:] == [""]


async def test_on_a_processor_memory_is_reserved_only_for_what_ran_out_of_it_beside_neighbours(tmp_path):
    memory = memory_of(tmp_path, None)
    fits, alone = Validations(memory), Validations(memory, 90 * GIB)
    assert await memory.validated(problem("a"), fits.attempt) == "facts"
    with pytest.raises(OutOfMemory):
        await memory.validated(problem("a"), alone.attempt)
    assert fits.reserved == alone.reserved == [[]] and fits.limits == alone.limits == [0]

    neighbour = await memory.reservations.reserve(GIB, "neighbour")
    memory.notify(problem("a"), lambda text: text and neighbour.release())
    beside = Validations(memory, 90 * GIB)
    with pytest.raises(OutOfMemory):
        await asyncio.wait_for(memory.validated(problem("a"), beside.attempt), LIMIT_S)
    assert beside.reserved == [[GIB], [CAPACITY]] and beside.limits == [0, 0]


def test_a_small_device_has_a_share_that_holds_a_context():
    assert memory_demand.demands_of_validation(4 * GIB) == [2 * memory_demand.CONTEXT_BYTES, 2 * GIB]
    assert memory_demand.demands_of_validation(GIB) == [], "it has all"
    assert memory_demand.demands_of_validation(CAPACITY) == SHARES


async def test_a_device_tells_the_process_what_its_tensors_may_take(tmp_path, monkeypatch):
    limits = []

    async def validate(launcher, lease, problem, accelerator, memory_bytes):
        limits.append(memory_bytes)
        if memory_bytes:
            raise OutOfMemory("too little")
        return "facts"

    async def start(launcher):
        pass

    monkeypatch.setattr(device_module, "validate_problem", validate)
    monkeypatch.setattr(Launcher, "start", start)
    sizes = dict.fromkeys(("cores", "vector_bytes", "l2_bytes", "l3_bytes", "memory_bytes"), 1)
    hardware = HardwareFacts(device="GPU", isa=(), copy_gbps=1.0, peak_gflops=1.0, accelerators=(GPU,), **sizes)
    async with Device(POOL, hardware, tmp_path) as device:
        assert await device.validate_problem(problem("a")) == "facts"
        demands = memory_demand.demands_of_validation(device.memory.reservations.capacity)
    assert limits == [*(demand - memory_demand.CONTEXT_BYTES for demand in demands), 0]


async def test_the_limit_is_in_the_command(tmp_path):
    commands = []

    async def ask(command, *_, **__):
        commands.append(command)
        return Failure(kind="memory", message="RuntimeError: CUDA out of memory"), ()

    async def spawn(role):
        return SimpleNamespace(ask=ask, send=lambda number: None, kill=lambda: asyncio.sleep(0))

    launcher: Any = SimpleNamespace(spawn=spawn, pool_name="cpu", memory=GIB)
    with pytest.raises(OutOfMemory, match=r"80.0 GiB of GPU"):
        lease = Lease(Pool(name="gpus", platform="nvidia", languages=("triton",)), tmp_path)
        await validate_problem(launcher, lease, problem("a"), GPU, 7)
    assert [command.memory_bytes for command in commands] == [7]


LARGE = 4 * GIB
"""Elements of float32: 16 GiB, of which an accelerator needs 15 times as much, and main memory ten times."""


def answering(reply: object, **sizes: int) -> Any:
    """A launcher whose process answers ``reply``, or dies."""

    async def ask(*_: Any, **__: Any) -> Any:
        if isinstance(reply, Exception):
            raise reply
        return reply, ()

    async def spawn(role: str) -> Any:
        return SimpleNamespace(ask=ask, send=lambda number: None, kill=lambda: asyncio.sleep(0), output="")

    return SimpleNamespace(spawn=spawn, pool_name="cpu", **sizes)


@pytest.mark.parametrize(
    ("on", "memory_gib", "main_gib", "sentence"),
    [
        (GPU, 0, 300, r"need 240\.0 GiB of the 80\.0 GiB of GPU\); use smaller shapes$"),
        (GIANT, 0, 31, r"need 160\.0 GiB of the 31\.0 GiB of this machine's main memory\); use smaller shapes$"),
        (
            None,
            50,
            999,
            r"need 144\.0 GiB of the 50\.0 GiB that pool cpu gives a candidate\); .*candidate_memory",
        ),
        (None, 500, 300, r"need 512\.0 GiB of the 300\.0 GiB of this machine's main memory\); use smaller shapes$"),
    ],
    ids=["device", "main memory beside a device", "candidate", "main memory"],
)
async def test_what_does_not_fit_names_the_memory_that_is_short(tmp_path, on, memory_gib, main_gib, sentence):
    tensor = given.facts().shapes[0].inputs[0]
    tensor = msgspec.structs.replace(tensor, shape=(LARGE,), dtype="float32")
    shape = msgspec.structs.replace(given.facts().shapes[0], inputs=(tensor,), outputs=(tensor,))
    validated = ProblemValidated(facts=given.facts(shapes=(shape,)))
    launcher = answering(validated, memory=memory_gib * GIB, reference_memory=main_gib * GIB)
    with pytest.raises(ProblemError, match=sentence):
        await validate_problem(launcher, Lease(POOL, tmp_path), problem("a"), on)


async def test_a_process_that_the_system_killed_was_short_of_main_memory(tmp_path):
    died = WorkerDied(Ended(exit_code=-1, signal=signal.SIGKILL))
    launcher = answering(died, memory=GIB, reference_memory=31 * GIB)
    with pytest.raises(OutOfMemory, match=r"in the 31\.0 GiB of this machine's main memory"):
        await validate_problem(launcher, Lease(POOL, tmp_path), problem("a"), GPU)


def test_main_memory_is_read_anew(tmp_path, monkeypatch):
    launcher = Launcher(POOL, given.hardware(memory_bytes=31 * GIB), tmp_path)
    monkeypatch.setattr(launcher_module, "machine_memory_bytes", lambda: 255 * GIB)
    assert launcher.reference_memory == 255 * GIB
    monkeypatch.setattr(launcher_module, "machine_memory_bytes", lambda: 20 * GIB)
    assert launcher.reference_memory == 31 * GIB


class LimitedMemory(tensor_placement.TensorDevice):
    """Main memory that holds its process to a limit, as an accelerator does."""

    shortages = 0

    def __init__(self) -> None:
        super().__init__()
        self.size: int | None = None

    def limit(self, size: int) -> None:
        self.size = size


SCALED = """
import torch
shapes = {"main": dict(n=64)}
def inputs(generator, n): return [torch.randn(n, generator=generator)]
def reference(x): return x * 2
"""


@pytest.fixture
def limited(tmp_path, monkeypatch):
    # The process writes the problem into its folder, and imports it.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "scaled", None)
    placed = LimitedMemory()
    monkeypatch.setattr(tensor_placement, "_current", [placed])
    with torch.no_grad():
        yield placed


def validate(memory_bytes: int, source: str = SCALED) -> ProblemValidated:
    opened = Open(name="scaled", source=source, format=ProblemFormat.function, device="cpu", seed=0)
    return problem_validation._validate(ValidateProblem(problem=opened, memory_bytes=memory_bytes), [])


def test_a_validation_process_holds_itself_to_its_limit(limited):
    assert validate(GIB).facts.signature == ("x",) and limited.size == GIB


def test_without_a_limit_it_has_all_of_the_memory(limited):
    limited.shortages = 1
    assert validate(0).facts.signature == ("x",) and limited.size is None


@pytest.mark.parametrize("source", [SCALED, SCALED + "\nshapes = 3\n"], ids=["went on", "failed for another reason"])
def test_whatever_follows_a_shortage_under_the_limit_is_out_of_memory(limited, source):
    limited.shortages = 1
    with pytest.raises(Refused) as refused:
        validate(GIB, source)
    assert refused.value.kind == "memory"
    assert refused.value.needed_bytes == (0 if "shapes = 3" in source else (3 + 5 + 2) * 4 * 64)


def test_what_cannot_fit_is_not_run(limited, monkeypatch):
    monkeypatch.setattr(problem_validation, "examined", None)
    with pytest.raises(Refused) as refused:
        validate(1000)
    assert refused.value.kind == "memory" and refused.value.needed_bytes == 10 * 4 * 64


@pytest.mark.parametrize(
    ("dtype", "inputs", "moved", "answers"),
    [("float32", 4 + 8, 8, 4 + 8 + 8), ("float16", 2 + 8, 8, 2 + 8 + 8), ("float64", 8 + 8, 8, 8 + 8 + 8)],
)
def test_what_validation_takes_goes_by_types_and_answers_to_moved_inputs_count_where_they_are_kept(
    limited, monkeypatch, dtype, inputs, moved, answers
):
    monkeypatch.setattr(problem_validation, "examined", None)
    source = SCALED.replace("generator=generator", f"generator=generator, dtype=torch.{dtype}")
    for large, kept in ((64, moved), (63, 0)):
        monkeypatch.setattr(problem_validation, "LARGE", large)
        with pytest.raises(Refused) as refused:
            validate(1000, source)
        assert refused.value.kind == "memory" and refused.value.needed_bytes == 64 * (inputs + answers + kept)


def test_an_accelerators_limit_is_a_fraction_of_its_memory(monkeypatch):
    fractions = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=80 * GIB))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *limit: fractions.append(limit))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda device: {"num_ooms": 2})
    placed = object.__new__(tensor_placement.Accelerator)
    placed.device = torch.device("cuda:0")
    placed.limit(10 * GIB)
    placed.limit(99 * GIB)
    assert fractions == [(0.125, placed.device), (1.0, placed.device)] and placed.shortages == 2
