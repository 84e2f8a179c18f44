"""Ctrl-C and SIGTERM: the first asks politely where somebody listens, the next one ends whatever is going on."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .search import Search

T = TypeVar("T")

EXIT_INTERRUPTED = 130
"""Exit status of a command that was cut short."""

HANDLED = (signal.SIGINT, signal.SIGTERM)

PATIENCE_S = 60.0
"""How long a polite end may take before it is cut short, as a second Ctrl-C would."""


class Interrupts:
    """The signals that came while a command's coroutine runs."""

    def __init__(self, task: "asyncio.Task[Any]", loop: asyncio.AbstractEventLoop) -> None:
        self.cancelled = False
        """Whether the coroutine was cancelled because of them."""
        self._task = task
        self._loop = loop
        self._polite: Callable[[], None] | None = None
        self._stop_requested = False

    @contextmanager
    def politely(self, ask: Callable[[], None], patience_s: float = PATIENCE_S) -> Iterator[None]:
        """While the body runs, the first signal calls ``ask`` and leaves the body ``patience_s`` seconds to end."""
        self._polite, self._patience_s = ask, patience_s
        try:
            yield
        finally:
            self._polite = None

    @contextmanager
    def closing(self, search: "Search", notice: Callable[[str], None]) -> "Iterator[set[asyncio.Task[None]]]":
        """While the body follows ``search``, the first signal closes its session; the tasks that do are in the set."""
        stop_tasks: set[asyncio.Task[None]] = set()

        def stop() -> None:
            closed = search.graph.closed is not None
            notice("leaving" if closed else "closing the session (Ctrl-C again to leave at once)")
            stop_tasks.add(asyncio.ensure_future(search.stop("interrupted")))

        with self.politely(stop):
            yield stop_tasks

    def arrived(self) -> None:
        """A signal came."""
        if self._polite is None or self._stop_requested:
            self._cancel()
            return
        self._stop_requested = True
        polite = self._polite
        self._loop.call_later(self._patience_s, lambda: self._cancel() if self._polite is polite else None)
        polite()

    def _cancel(self) -> None:
        self.cancelled = True
        self._task.cancel()


def run_interruptible(
    main: Callable[[Interrupts], Coroutine[Any, Any, T]], signals: Sequence[signal.Signals] = HANDLED
) -> T:
    """``asyncio.run`` for what ``signals`` interrupt.

    Raises:
        KeyboardInterrupt: a signal cut it short. Whatever broke on the way out of that is of no interest to anybody.
    """
    before = {number: signal.getsignal(number) for number in signals}
    state: list[Interrupts] = []

    async def handled() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        interrupts = Interrupts(task, loop)
        state.append(interrupts)
        for number in signals:
            loop.add_signal_handler(number, interrupts.arrived)
        return await main(interrupts)

    try:
        return asyncio.run(handled())
    except BaseException as error:
        if state and state[0].cancelled:
            # What was cut short may say what became of it.
            message = error.args if isinstance(error, asyncio.CancelledError) else ()
            raise KeyboardInterrupt(*message) from error
        raise
    finally:
        # asyncio leaves the system's default behind, which for SIGTERM is to die without a word.
        for number, handler in before.items():
            signal.signal(number, handler)
