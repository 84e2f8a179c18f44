"""Where seeds may come from: a session that is open, imported, of another pool, damaged, or one of very many."""

from pathlib import Path

import duckdb
import histories
import msgspec
import pytest
from story import story

import given
from kernelswarm.schemas import InputError, LogCorrupted, SessionClosed
from kernelswarm.sessions.adaptation import Target
from kernelswarm.sessions.seed import MOST_SESSIONS, seeding
from kernelswarm.store import import_log, log_path

TARGET = Target(given.problem(), given.facts(), given.pool(), given.hardware())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a session that was killed, and with as many of a likelier problem, just opened, as are looked at."""
    home = tmp_path_factory.mktemp("home")
    histories.into_log(home, killed())
    many = [story(f"many-{number:02}")[0] for number in range(MOST_SESSIONS)]
    histories.into_log(home, many)
    return home


def killed() -> list:
    (events,) = histories.read("v1-killed").values()
    assert not any(isinstance(envelope.event(), SessionClosed) for envelope in events)
    return events


async def test_an_open_session_seeds(home: Path) -> None:
    session = killed()[0].session
    seeds = await seeding(home, TARGET, (session,), 12)
    assert seeds.kernels and {kernel.session for kernel in seeds.kernels} == {session}


async def test_an_imported_session_seeds_and_the_others_of_its_log_do_not(home: Path, tmp_path: Path) -> None:
    session = killed()[0].session
    import_log(tmp_path, log_path(home), sessions=[session])
    assert (await seeding(tmp_path, TARGET, (session,), 12)).kernels
    with pytest.raises(InputError, match="there is no session 'many-00' to seed from"):
        await seeding(tmp_path, TARGET, ("many-00",), 12)


async def test_what_another_pool_cannot_run_is_left_out_with_the_reason(home: Path) -> None:
    pool = msgspec.structs.replace(given.pool(), name="far", platform="cuda", languages=("triton",))
    with pytest.raises(InputError, match=r"written in cpp, pool far takes triton; leave --seed-from out"):
        await seeding(home, Target(given.problem(), given.facts(), pool, given.hardware()), (killed()[0].session,), 12)


async def test_every_session_that_is_named_is_looked_at(home: Path) -> None:
    names = [*(f"many-{number:02}" for number in range(MOST_SESSIONS)), "nosuch"]
    with pytest.raises(InputError, match="there is no session 'nosuch' to seed from"):
        await seeding(home, TARGET, names, 12)
    names[-1] = killed()[0].session
    seeds = await seeding(home, TARGET, names, 12)
    assert {kernel.session for kernel in seeds.kernels} == {names[-1]}


async def test_a_source_that_is_not_what_was_written_is_named(tmp_path: Path) -> None:
    events = killed()
    histories.into_log(tmp_path, events)
    with duckdb.connect(log_path(tmp_path)) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("UPDATE events SET at_ns = at_ns + 1 WHERE seq = 7")
    for sources in ((events[0].session,), ("auto",)):
        with pytest.raises(LogCorrupted, match="damaged from event 7 "):
            await seeding(tmp_path, TARGET, sources, 12)
