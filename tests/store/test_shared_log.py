"""One opened file for several questions."""

import asyncio
from pathlib import Path

import pytest
from logged import write_session

from kernelswarm.schemas import InputError
from kernelswarm.store import Log, log_path, run_sql, share_log, verify_small
from kernelswarm.store.shared_log import log_to_read


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_session(tmp_path)
    return tmp_path


async def test_questions_in_the_body_are_answered_by_one_log(home: Path) -> None:
    async with share_log(home):
        with log_to_read(log_path(home)) as first:
            pass
        assert (await run_sql(home, "SELECT 1")).rows == ((1,),)
        assert (await verify_small(home)) is not None
        with log_to_read(log_path(home)) as second:
            assert second is first and not first.closed
    assert first.closed


async def test_nothing_is_opened_before_the_first_question(tmp_path: Path) -> None:
    async with share_log(tmp_path):
        with Log.open(log_path(tmp_path)) as log:
            assert (await run_sql(tmp_path, "SELECT count(*) FROM events")).rows == ((0,),)
        assert log.closed


async def test_after_an_error_the_file_is_opened_anew(home: Path) -> None:
    async with share_log(home):
        with log_to_read(log_path(home)) as first:
            pass
        with pytest.raises(InputError):
            await run_sql(home, "SELECT nothing FROM nowhere")
        assert first.closed
        assert (await run_sql(home, "SELECT 1")).rows == ((1,),)


async def test_a_log_of_another_home_is_not_shared(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_session(other)
    async with share_log(other):
        with log_to_read(log_path(home)) as log:
            assert log.path == log_path(home).resolve()
        assert log.closed


async def test_once_the_body_is_left_the_log_can_be_written(home: Path) -> None:
    async with share_log(home):
        await run_sql(home, "SELECT 1")
    await asyncio.to_thread(lambda: Log.open(log_path(home)).close())
