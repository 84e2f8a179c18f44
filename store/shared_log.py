"""One opened file for several questions in a row: to open a log takes longer than most of them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path

from .location import log_path
from .log import Log


class _Shared:
    """A log that is opened for the first question, and closed when there will be no more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._log: Log | None = None

    def opened(self) -> Log:
        with self._lock:
            if self._log is None:
                self._log = Log.open(self.path, read_only=True)
            return self._log

    def close(self) -> None:
        with self._lock:
            if self._log is not None:
                self._log.close()
            self._log = None


_shared: ContextVar[_Shared | None] = ContextVar("shared_log", default=None)


@contextlib.asynccontextmanager
async def share_log(home: Path) -> AsyncIterator[None]:
    """What is asked of the log of ``home`` in the body, one question after the other, opens its file once.

    Nobody can write into the log from the first question that the file answers to the end of the body: wait for
    nothing in it.
    """
    shared = _Shared(log_path(home).resolve())
    token = _shared.set(shared)
    try:
        yield
    finally:
        _shared.reset(token)
        await asyncio.to_thread(shared.close)


@contextlib.contextmanager
def log_to_read(path: Path) -> Iterator[Log]:
    """The log at ``path``, which nobody has open: the one of :func:`share_log`, or one for the body alone. Blocks.

    Raises:
        LogBusyError, StoreError: as :meth:`Log.open`.
    """
    shared = _shared.get()
    if shared is None or shared.path != Path(path).resolve():
        with Log.open(path, read_only=True) as log:
            yield log
        return
    try:
        yield shared.opened()
    except BaseException:
        # After some errors DuckDB answers nothing more until it has opened the file anew.
        shared.close()
        raise
