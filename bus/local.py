"""The embedded server of a home folder: the first process starts it, the others join it.

In ``home/nats`` lie the server's store and four small files. ``owner`` is locked (flock) by the process that runs the
server. ``store.lock`` is inherited by the server itself, so whoever gets it knows that no server writes there any
more, not even one whose owner was killed a moment ago. ``guests`` is held shared by every process that joined; the
owner takes it alone before it shuts the server down. ``run.json`` says where the server listens.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from ..schemas import BusError, InputError, Schema, decode, encode
from .server import Server

MIN_FREE_BYTES = 64 * 1024 * 1024
"""Free disk space without which no server is started."""

RESTARTS = 5
"""How often in :data:`RESTARTS_SECONDS` a server that died under a living owner is started again."""

RESTARTS_SECONDS = 600.0

STILL_USED = (
    "another process still uses the event bus of this one: waiting for it to finish. This one's result is in the log: "
    "Ctrl-C ends both, and `kernelswarm resume` goes on with the other's search. A home of its own for each process, "
    "or a cluster (--nats), avoids that"
)
"""What the owner of a server says when it has nothing else to do and cannot leave."""

JOIN_SECONDS = 30.0
_POLL_SECONDS = 0.02
_WATCH_SECONDS = 0.25
_FULL_SECONDS = 2.0
"""How often the owner looks whether the server's disk is full."""


class _Run(Schema, frozen=True, kw_only=True):
    url: str
    owner: int
    server: int


@contextlib.asynccontextmanager
async def embedded(
    home: Path, *, on_wait: Callable[[str], None] | None = None, min_free_bytes: int = MIN_FREE_BYTES
) -> AsyncIterator[str]:
    """The URL of the server of ``home``: a child of this process, or one that another process runs already.

    The child listens on a free loopback port, keeps its data under ``home/"nats"`` and dies with this process, also on
    SIGKILL; if it dies alone it is started again on the same port. On leaving, an owner waits until no other process
    uses the server; ``on_wait`` is told so once, in a sentence. Enter from a thread that lives as long as the context
    does: the kernel ties the child to the thread that started it.

    Raises:
        InputError: the home cannot be written, its disk is full, or no nats-server is installed.
        BusError: the server does not start; or (raised out of the ``async with`` body, which is cancelled) it died for
            good, or the process that ran it for us ended.
    """
    folder = _prepare(home, min_free_bytes)
    with contextlib.ExitStack() as files:
        owner, guests, store = (_open(files, folder / name) for name in ("owner", "guests", "store.lock"))
        if await _own_or_join(folder, owner, guests):
            await _locked(store, folder / "store.lock")
            scope = _owned(folder, store, guests, on_wait)
        else:
            scope = _joined(folder, owner)
        async with scope as url:
            yield url


def _prepare(home: Path, min_free_bytes: int) -> Path:
    folder = home.absolute() / "nats"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise InputError(
            f"cannot use {folder}: {error.strerror}; set KERNELSWARM_HOME to a folder that can be written"
        ) from error
    if free < min_free_bytes:
        raise InputError(
            f"the disk of {folder} is full: {free >> 20} MB are free, {min_free_bytes >> 20} MB are needed; "
            "free some, or set KERNELSWARM_HOME to another disk"
        )
    return folder


def _open(files: contextlib.ExitStack, path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; set KERNELSWARM_HOME to a folder that can be written"
        ) from error

    files.callback(os.close, fd)
    return fd


def _try_lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _own_or_join(folder: Path, owner: int, guests: int) -> bool:
    """True once ``owner`` is ours, False once ``guests`` is shared with a live owner."""
    for _ in range(int(JOIN_SECONDS / _POLL_SECONDS)):
        if _try_lock(owner, fcntl.LOCK_EX):
            return True
        if _try_lock(guests, fcntl.LOCK_SH):
            # Looked at after taking the lock: an owner that is leaving has removed the file before it lets us in.
            if _live_run(folder) is not None:
                return False
            fcntl.flock(guests, fcntl.LOCK_UN)
        await asyncio.sleep(_POLL_SECONDS)
    raise BusError(
        f"{folder / 'owner'} is locked by another process, but no server can be reached there: "
        "end that process, or set KERNELSWARM_HOME"
    )


async def _locked(fd: int, path: Path) -> None:
    for _ in range(int(JOIN_SECONDS / _POLL_SECONDS)):
        if _try_lock(fd, fcntl.LOCK_EX):
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise BusError(f"{path} is still locked by the nats-server of a process that ended: end that server")


def running(home: Path) -> str | None:
    """URL of the embedded server that a process runs for ``home`` right now; None if there is none.

    Raises:
        BusError: its file is not readable.
    """
    run = _live_run(Path(home).absolute() / "nats")
    return None if run is None else run.url


def _live_run(folder: Path) -> _Run | None:
    run = _read_run(folder)
    if run is None:
        return None
    try:
        os.kill(run.owner, 0)
        os.kill(run.server, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it lives, as another user's
    return run if _listens(run) else None


def _listens(run: _Run) -> bool:
    """A process that was killed keeps its number until its parent has noticed; a port is closed at once."""
    address = urlsplit(run.url)
    try:
        socket.create_connection((address.hostname, address.port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _read_run(folder: Path) -> _Run | None:
    try:
        return decode((folder / "run.json").read_bytes(), _Run)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BusError(
            f"{folder / 'run.json'} is not readable ({error}): end the process that uses it and delete the file"
        ) from error


@contextlib.asynccontextmanager
async def _owned(folder: Path, store: int, guests: int, on_wait: Callable[[str], None] | None) -> AsyncIterator[str]:
    run_file = folder / "run.json"
    run_file.unlink(missing_ok=True)
    server = Server(folder, store)
    await server.start()
    try:
        _write_run(run_file, server)
        async with _while_alive(lambda: _keep_running(server, run_file)):
            yield server.url
        await _last_guest(guests, on_wait)
    finally:
        run_file.unlink(missing_ok=True)
        await server.stop()


@contextlib.asynccontextmanager
async def _joined(folder: Path, owner: int) -> AsyncIterator[str]:
    run = _live_run(folder)
    if run is None:
        raise BusError(f"the server of {folder} ended just now: run the command again")
    async with _while_alive(lambda: _owner_ends(folder, run, owner)):
        yield run.url


@contextlib.asynccontextmanager
async def _while_alive(watch: Callable[[], Awaitable[BusError]]) -> AsyncIterator[None]:
    """Run the body; cancel it when ``watch`` returns an error, and raise that error in its place."""
    body = asyncio.current_task()
    assert body is not None

    async def cancel_on_error() -> BusError:
        error = await watch()
        body.cancel()
        return error

    watcher = asyncio.create_task(cancel_on_error(), name="embedded-server-watch")
    try:
        yield
    except asyncio.CancelledError:
        if not watcher.done() or watcher.cancelled():
            raise
        body.uncancel()
        raise watcher.result() from None
    finally:
        watcher.cancel()
        await asyncio.wait([watcher])


async def _keep_running(server: Server, run_file: Path) -> BusError:
    deaths: list[float] = []
    while True:
        if await _ended_or_freed(server, run_file.parent):
            now = time.monotonic()
            deaths = [*(at for at in deaths if now - at < RESTARTS_SECONDS), now]
            if len(deaths) > RESTARTS:
                return BusError(f"the embedded nats-server died {len(deaths)} times: {server.log_tail()}")
        try:
            await server.start()
            _write_run(run_file, server)
        except (BusError, InputError, OSError) as error:
            return BusError(f"the embedded nats-server died and does not start again: {error}")


async def _ended_or_freed(server: Server, folder: Path) -> bool:
    """True when the server died; False when it was stopped because its full disk has room again."""
    ended = asyncio.ensure_future(server.ended())
    try:
        while not ended.done():
            await asyncio.wait([ended], timeout=_FULL_SECONDS)
            roomy = shutil.disk_usage(folder).free >= MIN_FREE_BYTES
            if not ended.done() and roomy and await asyncio.to_thread(server.choked):
                await server.stop()
                return False
    finally:
        ended.cancel()
    return True


async def _owner_ends(folder: Path, run: _Run, owner: int) -> BusError:
    # Another process may become the owner before we look: then the file speaks of that one.
    while (current_run := _read_run(folder)) is not None and current_run.owner == run.owner:
        if _try_lock(owner, fcntl.LOCK_SH):
            fcntl.flock(owner, fcntl.LOCK_UN)
            break
        await asyncio.sleep(_WATCH_SECONDS)  # flock has no event to wait for
    address = urlsplit(run.url)
    return BusError(
        f"process {run.owner}, which ran the event bus at {address.hostname}:{address.port} for this one, has ended: "
        "`kernelswarm resume SESSION` goes on with a search; run any other command again"
    )


async def _last_guest(guests: int, on_wait: Callable[[str], None] | None) -> None:
    if _try_lock(guests, fcntl.LOCK_EX):
        return
    if on_wait is not None:
        on_wait(STILL_USED)
    while not _try_lock(guests, fcntl.LOCK_EX):  # noqa: ASYNC110
        await asyncio.sleep(_WATCH_SECONDS)


def _write_run(path: Path, server: Server) -> None:
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_bytes(encode(_Run(url=server.url, owner=os.getpid(), server=server.pid)))
    fresh.replace(path)
