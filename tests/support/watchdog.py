"""Fails what keeps an event loop from everybody else: a step of the package's own tasks that computes for too long.

Counted is the CPU time of the loop's thread, not the wall's, so that a busy machine convicts nobody; what the garbage
collector takes is not counted either. A virtual machine that stands still meanwhile may count for the thread (seen in
CI: 141 ms for a step that takes 2, 60 ms for a list of open files): a second thread that should have seen the step
several times, and did not, stood still as well or waited for a long call in C, so such a step gets more time. Steps of
the test's own task are its own affair.
"""

import asyncio
import contextlib
import functools
import gc
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import kernelswarm

LIMIT_S = 0.05
UNSEEN_LIMIT_S = 0.25
SAMPLE_S = 0.01
SIGHTS = 3
"""A thread that computes is seen that often within the limit, beside others; before and after a standstill: twice."""
PACKAGE = Path(kernelswarm.__file__).parent
TESTS = PACKAGE / "tests"
ENVIRONMENT = Path(sys.prefix)


@dataclass
class Blocked:
    """One step that took too long."""

    what: str
    seconds: float
    stack: str = ""

    def __str__(self) -> str:
        return f"{self.what} computed for {self.seconds * 1000:.0f} ms on the event loop\n{self.stack}"


@dataclass
class Watchdog:
    """What is under way on the watched thread, and what took too long."""

    limit_s: float = LIMIT_S
    blocked: list[Blocked] = field(default_factory=list)
    thread: int = 0
    step: int = 0
    """Number of the step under way; 0: none."""
    steps: int = 0
    began: float = 0.0
    collected: float = 0.0
    """CPU seconds that the garbage collector took within the step."""
    sights: int = 0
    """How often the step under way was seen."""
    samples: dict[int, str] = field(default_factory=dict)

    def sample(self, ended: threading.Event) -> None:
        """Keep the stack of a step that takes long: once it is over nobody can tell where it was."""
        while not ended.wait(SAMPLE_S):
            step, began = self.step, self.began
            self.sights += bool(step)
            if step and step not in self.samples and time.monotonic() - began > self.limit_s / 2:
                frame, stack = sys._current_frames().get(self.thread), ""
                # The thread runs on: what was its frame may be another object by now.
                with contextlib.suppress(AttributeError):
                    stack = "".join(traceback.format_stack(frame)[-12:]) if frame else ""
                if self.step == step:
                    self.samples[step] = stack

    def run(self, handle: asyncio.Handle, run: Any) -> None:
        """Run a step of the loop, and note it if it computed too long for a task of the package."""
        # A loop of its own in a thread of asyncio.to_thread keeps nobody waiting.
        name = "" if threading.current_thread().name.startswith("asyncio_") else _ours(handle)
        if not name or self.step:
            run(handle)
            return
        self.steps += 1
        self.thread, self.began, self.collected = threading.get_ident(), time.monotonic(), 0.0
        self.sights, self.step = 0, self.steps
        start = time.thread_time()
        try:
            run(handle)
        finally:
            seconds = time.thread_time() - start - self.collected
            step, self.step = self.step, 0
            stack = self.samples.pop(step, "")
            if seconds > (self.limit_s if stack and self.sights >= SIGHTS else UNSEEN_LIMIT_S):
                self.blocked.append(Blocked(name, seconds, stack))


def _ours(handle: asyncio.Handle) -> str:
    """Name of the package's coroutine or function that the step runs; empty for anybody else's."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    code = _code(owner.get_coro()) if isinstance(owner, asyncio.Task) else getattr(callback, "__code__", None)
    return _our_name(code.co_filename, code.co_qualname) if isinstance(code, CodeType) else ""


@functools.cache
def _our_name(filename: str, function: str) -> str:
    """Kept: a search takes tens of thousands of steps, and paths are slow to compare."""
    path = Path(filename)
    is_ours = path.is_relative_to(PACKAGE) and not path.is_relative_to(TESTS) and not path.is_relative_to(ENVIRONMENT)
    return f"{path.relative_to(PACKAGE)}: {function}" if is_ours else ""


def _code(coroutine: Any) -> Any:
    return getattr(coroutine, "cr_code", getattr(coroutine, "gi_code", None))


@contextmanager
def watching(limit_s: float = LIMIT_S) -> Iterator[Watchdog]:
    """Watch every event loop while the body runs; one at a time."""
    watchdog, ended, started = Watchdog(limit_s), threading.Event(), [0.0]
    original = asyncio.events.Handle._run

    def collecting(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            started[0] = time.thread_time()
        elif threading.get_ident() == watchdog.thread:
            watchdog.collected += time.thread_time() - started[0]

    def run(handle: asyncio.Handle) -> None:
        watchdog.run(handle, original)

    sampler = threading.Thread(target=watchdog.sample, args=(ended,), daemon=True, name="watchdog")
    asyncio.events.Handle._run = run  # type: ignore[method-assign]
    gc.callbacks.append(collecting)
    sampler.start()
    try:
        yield watchdog
    finally:
        asyncio.events.Handle._run = original  # type: ignore[method-assign]
        gc.callbacks.remove(collecting)
        ended.set()
        sampler.join()
