"""The watchdog of the tests names the package's tasks that compute on the event loop, and nobody else's."""

import asyncio
import time

import pytest
import watchdog

from kernelswarm.agents.synthesizer.generator import GeneratorBackend


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_a_step_of_the_package_that_computes_too_long_is_named(monkeypatch, event_loop_watchdog):
    async def slow(self):
        spin(0.5)  # long enough that the sampling thread has its turn on a busy machine

    slow.__code__ = slow.__code__.replace(co_filename=GeneratorBackend.close.__code__.co_filename)
    monkeypatch.setattr(GeneratorBackend, "close", slow)
    await asyncio.create_task(GeneratorBackend().close())
    (blocked,) = event_loop_watchdog.blocked
    assert "agents/synthesizer/generator.py" in str(blocked)
    assert "spin" in blocked.stack
    event_loop_watchdog.blocked.clear()


@pytest.mark.parametrize("seconds, is_named", [(0.1, False), (0.4, True)])
async def test_a_step_that_nobody_saw_gets_more_time(monkeypatch, event_loop_watchdog, seconds, is_named):
    async def slow(self):
        spin(seconds)

    slow.__code__ = slow.__code__.replace(co_filename=GeneratorBackend.close.__code__.co_filename)
    monkeypatch.setattr(GeneratorBackend, "close", slow)
    monkeypatch.setattr(watchdog, "SAMPLE_S", 60.0)
    with watchdog.watching() as watched:
        await asyncio.create_task(GeneratorBackend().close())
    event_loop_watchdog.blocked.clear()
    assert bool(watched.blocked) == is_named


async def test_waiting_and_the_tests_own_computing_count_for_nothing(event_loop_watchdog):
    async def waits():
        await asyncio.sleep(0.06)
        time.sleep(0.06)  # noqa: ASYNC251

    await asyncio.create_task(waits())
    spin(0.06)
    assert not event_loop_watchdog.blocked
