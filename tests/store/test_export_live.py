"""Backup, verify, tail and export of a log that another process has: through its recorder, while it records."""

import asyncio
from contextlib import aclosing
from pathlib import Path

from story import story, wire
from training_story import model_story
from waiting import LIMIT_S

from kernelswarm.bus import Bus
from kernelswarm.schemas import encode
from kernelswarm.store import (
    Log,
    backup_log,
    log_path,
    log_stats,
    recording,
    run_sql,
    tail_log,
    verify_log,
    wait_recorded,
    write_export,
)


async def test_a_log_is_copied_and_exported_while_it_is_recorded(tmp_path: Path, bus: Bus) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with asyncio.timeout(LIMIT_S), recording(home, bus):
        await wait_recorded(home, bus, await last_of(bus, model_story()))

        async def go_on() -> None:
            for number in range(20):
                await bus.publish_many(story(f"later-{number}"))

        more = asyncio.create_task(go_on())
        copied = await backup_log(elsewhere, tmp_path / "copy.duckdb", bus=bus)
        assert (await verify_log(elsewhere, bus=bus)).ok
        manifest = await write_export(elsewhere, "grpo", tmp_path / "out", sessions=["softmax-m1"], bus=bus)
        assert (await log_stats(elsewhere, bus=bus)).bytes is None
        await more
    assert manifest.rows == 1 and not log_path(elsewhere).exists()
    with Log.open(tmp_path / "copy.duckdb") as copy, Log.open(log_path(home)) as log:
        assert copy.verify().ok
        table = await run_sql(home, "SELECT hash FROM events WHERE seq = ?", params=(copied.events,))
        assert table.rows == ((copied.head,),) and len(copy) == copied.events
        assert copy.read(limit=20) == log.read(limit=20)


async def test_a_tail_hears_what_is_recorded_elsewhere(tmp_path: Path, bus: Bus) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    envelopes = story("one")
    async with asyncio.timeout(LIMIT_S), recording(home, bus):
        await wait_recorded(home, bus, await last_of(bus, envelopes[:4]))
        heard = []
        async with aclosing(tail_log(elsewhere, bus=bus, session="one", last=2, follow=True)) as events:
            async for _, envelope in events:
                heard.append(encode(envelope))
                if len(heard) == 2:
                    await bus.publish_many(envelopes[4:])
                if len(heard) == len(envelopes) - 2:
                    break
    assert heard == [data for _, data in wire(envelopes)][2:]


async def last_of(bus: Bus, envelopes: list) -> int:
    return max(await bus.publish_many(envelopes))
