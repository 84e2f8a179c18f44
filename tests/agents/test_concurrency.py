"""How many nodes a search keeps under way, given the workers that are there."""

import msgspec
import pytest

import given
from kernelswarm.agents.planner.machine import WIDTH
from kernelswarm.agents.registry import ALL_ROLES, AS_FITS, ROLES, worker_counts
from kernelswarm.bus import Bus
from kernelswarm.schemas import Accelerator, HardwareFacts, WorkerPresence
from kernelswarm.sessions.concurrency import GENERATIONS, kept_busy, width_for
from kernelswarm.sessions.search_options import SearchOptions


def machine(cores: int, devices: int) -> HardwareFacts:
    accelerator = Accelerator(index=0, name="a", uuid="GPU-1", target="sm_90", memory_bytes=1 << 37)
    return msgspec.structs.replace(given.opened().hardware, cores=cores, accelerators=(accelerator,) * devices)


def test_on_a_processor_two_compile_and_one_of_each_other_role_works() -> None:
    assert worker_counts(ALL_ROLES, machine(16, 0)) == {role: 2 if role == "compiler" else 1 for role in ROLES}


@pytest.mark.parametrize(("cores", "compilers"), [(2, 2), (11, 7), (16, 12), (128, 32)])
def test_beside_an_accelerator_all_cores_compile_but_a_few(cores: int, compilers: int) -> None:
    fits = worker_counts(ALL_ROLES, machine(cores, 1))
    assert (fits["compiler"], fits["verifier"], fits["profiler"]) == (compilers, 2, 4 if cores >= 12 else 2)


def test_each_accelerator_has_its_verifiers_and_profilers() -> None:
    fits = worker_counts(ALL_ROLES, machine(16, 3), 3)
    assert (fits["compiler"], fits["verifier"], fits["profiler"]) == (12, 6, 6)
    assert worker_counts(ALL_ROLES, machine(48, 3), 3)["profiler"] == 12


def test_a_number_that_somebody_gave_stays() -> None:
    assert worker_counts({"compiler": 3, "verifier": AS_FITS}, machine(16, 1)) == {"compiler": 3, "verifier": 2}


def test_a_node_for_each_compiler_but_never_so_many_that_the_search_is_blind() -> None:
    assert width_for(1000, 12) == 12
    assert width_for(40, 12) == 40 // GENERATIONS
    assert width_for(8, 12) == width_for(1000, 2) == WIDTH


async def test_the_width_goes_into_the_options_unless_somebody_chose_one_or_a_model_is_asked(bus: Bus) -> None:
    async def width(roles: dict[str, int], **options: object) -> object:
        search_options = SearchOptions(budget=40, **options)  # type: ignore[arg-type]
        busy = await kept_busy(search_options, bus, "h200", roles, machine(16, 1), alone=True)
        return busy.policy_options.get("width")

    everybody = dict(ALL_ROLES)
    assert await width(everybody) == 10
    assert await width({"compiler": 6}) == 6
    assert await width({"compiler": 2}) is None, "what the planner does anyway is not said"
    assert await width(everybody, policy_options={"width": 5}) == 5
    assert await width(everybody, synthesizer="anthropic") is None


async def test_on_a_cluster_the_compilers_of_the_pool_count(bus: Bus) -> None:
    for number, pool in enumerate(["h200"] * 7 + ["cpu"] * 2):
        await bus.heartbeat(
            WorkerPresence(worker=f"w{number}", role="compiler", pool=pool, host="h", pid=1, since_ns=1, at_ns=1)
        )
    busy = await kept_busy(SearchOptions(budget=40), bus, "h200", {}, machine(16, 1), alone=False)
    assert busy.policy_options == {"width": 7}
