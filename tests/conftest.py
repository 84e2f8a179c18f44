"""Fixtures that more than one folder needs, how long properties are tried, and which tests need a quiet machine.

The same examples on every run; ``HYPOTHESIS_PROFILE=long pytest -k properties`` tries ten times as many, new ones.
"""

import gc
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import empty_logs
import machine
import pytest
import watchdog
from hypothesis import settings

from kernelswarm.bus import Bus, embedded
from kernelswarm.hardware.harness import allocator
from kernelswarm.hardware.processes.fork_server import FORK_SERVERS
from kernelswarm.store import database

settings.register_profile("quick", derandomize=True, deadline=None)
settings.register_profile("long", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

TIMED = (
    "adversarial/test_evaluators_faults.py::test_one_honest_file",
    "adversarial/test_evaluators_faults.py::test_text_in_a_candidate_changes_nothing",
    "adversarial/test_evaluators_faults.py::test_the_baseline_is_measured_in_the_same_run",
    "adversarial/test_evaluators_faults.py::test_weights_are_shared",
    "adversarial/test_evaluators_faults.py::test_what_pytorch_computes_in_no_hurry_is_no_win_whatever_lies_beside_it",
    "adversarial/test_honest_kernels.py",
    "adversarial/test_kernels.py",
    "harness/test_background_load.py",
    "harness/test_cheats.py::test_what_computes_after_its_call_is_refused",
    "harness/test_cheats.py::test_what_is_right_until_it_is_timed_gains_nothing",
    "harness/test_clocks.py",
    "harness/test_floors.py::test_faster_than_the_machine_is_hidden_work",
    "harness/test_floors.py::test_a_machine_that_was_measured_too_slow_condemns_nobody",
    "harness/test_fresh_data.py",
    "harness/test_honest_candidates.py::test_outputs_of_another_size_on_data_not_seen_before",
    "harness/test_idle_check.py",
    "harness/test_joined_calls.py",
    "harness/test_state.py::test_calls_begin_from_the_start_while_they_are_timed",
    "harness/test_state.py::test_state_left_alone_while_it_is_timed_is_wrong",
    "harness/test_stopwatch.py",
    "harness/test_timed_from_outside.py::test_an_error_beside_the_bound_hides_no_other_output",
    "harness/test_timed_from_outside.py::test_what_is_wrong_while_it_is_timed_alone_is_found",
    "ordinary/test_ordinary_failures.py::test_one_that_hangs_is_ended",
)
"""Folders, files and tests whose verdicts hang on how long something takes: ``make test`` runs them by themselves."""

TESTS = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: the garbage collector goes through none of it, which would take each worker seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Tracing makes many small objects; to look for garbage after each 700 of them takes 3 % of the CPU time.
        gc.set_threshold(10_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test = item.path.relative_to(TESTS).as_posix() + "::" + item.name.partition("[")[0]
        if any(test == timed or test.startswith((f"{timed}/", f"{timed}::")) for timed in TIMED):
            item.add_marker(pytest.mark.timed)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``-m timed`` imports the files that hold timed tests and no others: all of them take ten seconds."""
    if not config.option.markexpr.startswith("timed") or collection_path.is_dir():
        return None
    name = collection_path.relative_to(TESTS).as_posix() if collection_path.is_relative_to(TESTS) else ""
    return None if any(timed.partition("::")[0] == name for timed in TIMED) else True


# A test that compiles with Inductor compiles a kernel or two: precompiled headers, processes that compile, and programs
# that ask what this processor has would take many times as long. Devices do not inherit this.
os.environ |= {
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
}

# Homes of tests are no neighbours of each other: what is timed runs alone.
os.environ["KERNELSWARM_LEASES"] = "leases"

# A hundred processes that tests start would each compile the whole package anew, half a second; and each worker would
# rewrite the assertions of all tests, five seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(autouse=True, scope="session")
def _the_machine_is_measured_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.getbasetemp()
        # Workers of one run lie beside each other.
        folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "machine"
        patch.setattr("kernelswarm.hardware.platforms.cpu.measured_peaks", machine.measured_in(folder))
        patch.setattr(allocator, "_built", machine.built_in(folder, allocator._built))
        yield


@pytest.fixture(autouse=True, scope="session")
def _new_logs_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        connect = empty_logs.copied_from(tmp_path_factory.mktemp("empty"), database._connect)
        patch.setattr(database, "_connect", connect)
        yield


@pytest.fixture(autouse=True, scope="session")
def _fork_servers_are_shared() -> Iterator[None]:
    """Devices of many tests fork their children from one server: each would import torch anew, four CPU seconds."""
    with FORK_SERVERS.kept():
        yield


@pytest.fixture(autouse=True)
def event_loop_watchdog() -> Iterator[watchdog.Watchdog]:
    """Agents, bus and recorder share a loop: a step that computes on it keeps all others waiting."""
    with watchdog.watching() as watched:
        yield watched
    assert not watched.blocked, "\n".join(map(str, watched.blocked))


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Bus]:
    """A connection to a real server of its own."""
    async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as connected:
        yield connected
