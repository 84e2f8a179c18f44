"""Processes in which the generator writes candidates.

A large graph takes seconds, and Python runs one thread at a time: drafts of six networks that were written in a thread
kept the event loop from its work for most of a minute.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import traceback

import msgspec

from ...codegen import Exhausted, Generator, Proposal
from ...hardware.processes import linux, subprocesses, wire
from ...hardware.processes.channel import Channel
from ...schemas import sha256
from .backend import Attempt, Request

CORES_FOR_ONE = 4
MOST = 4
TRIES = 2
"""A process may be killed by somebody else once."""


class Defect(msgspec.Struct, frozen=True, tag=True):
    """The generator raised."""

    reason: str
    trace: str


Draft = Proposal | Exhausted | Defect


class Drafters:
    """The processes of one supervisor; each is started when all others are at work, and ends with it."""

    def __init__(self, most: int = 0) -> None:
        """``most`` at once; 0: by the number of cores."""
        self._turns = asyncio.Semaphore(most or max(1, min(MOST, (os.cpu_count() or 1) // CORES_FOR_ONE)))
        self._idle: list[_Drafter] = []

    async def draft(self, request: Request) -> Draft:
        """What the generator answers; cancelled, it writes no further.

        Raises:
            EOFError: the process ended, whichever it was.
        """
        async with self._turns:
            for number in range(TRIES):
                drafter = self._idle.pop() if self._idle else await _Drafter.started()
                try:
                    draft = await drafter.draft(request)
                except BaseException as error:
                    await drafter.close()
                    if not isinstance(error, EOFError | OSError) or number == TRIES - 1:
                        raise
                else:
                    self._idle.append(drafter)
                    return draft
        raise AssertionError("the last try has raised")

    async def close(self) -> None:
        """End those that are idle; who waits for another one is cancelled before."""
        while self._idle:
            await self._idle.pop().close()


class _Drafter:
    def __init__(self, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self._process, self._channel = process, channel

    @classmethod
    async def started(cls) -> "_Drafter":
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        try:
            with theirs:
                command = (sys.executable, "-P", "-m", __name__, str(theirs.fileno()))
                process = await subprocesses.start(
                    *command, stdin=asyncio.subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
                )
        except BaseException:
            channel.close()
            raise
        return cls(process, channel)

    async def draft(self, request: Request) -> Draft:
        await self._channel.send(request)
        draft: Draft
        draft, _ = await self._channel.receive(Draft)
        return draft

    async def close(self) -> None:
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await subprocesses.reaped(self._process)


def drafted(request: Request) -> Draft:
    """What the generator proposes, in this process."""
    parent = parent_of(request)
    try:
        return Generator().propose(
            request.facts,
            request.hardware,
            request.plan,
            parent.recipe if parent else None,
            [attempt.recipe for attempt in request.tried if attempt.source],
            request.skills,
            {sha256(attempt.source) for attempt in request.tried},
            (request.second.recipe or None) if request.second and parent else None,
            request.language,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes data
        return Defect(f"{type(error).__name__}: {error}", traceback.format_exc())


def parent_of(request: Request) -> Attempt | None:
    """The node to start from: its own backend may be another one, then its config means nothing here."""
    if not request.plan.parent or not request.lineage:
        return None
    return request.lineage[0] if request.lineage[0].recipe else None


def main(descriptor: int) -> None:
    """Serve the supervisor on the socket ``descriptor`` until its other end is gone."""
    linux.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Candidates may be timed meanwhile.
    os.nice(linux.LESS_URGENT)
    with socket.socket(fileno=descriptor) as supervisor, contextlib.suppress(EOFError, ConnectionError):
        while True:
            request: Request
            request, _ = wire.receive(supervisor, Request)
            wire.send(supervisor, drafted(request))


if __name__ == "__main__":
    main(int(sys.argv[1]))
