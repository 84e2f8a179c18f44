"""A background task that its body cannot do without."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running_beside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run ``work`` while the body runs, and end it with the body.

    If it ends first, the body is cancelled and what ended it is raised in the body's place: a body that waits for
    what nobody does any more would wait for ever.
    """
    body = asyncio.current_task()
    assert body is not None
    task = asyncio.create_task(work, name=name)
    leaving = False

    def ended(done: "asyncio.Task[None]") -> None:
        if not leaving and not done.cancelled():
            body.cancel()

    task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not task.done() or task.cancelled():
            raise
        body.uncancel()
        task.result()
        raise
    finally:
        leaving = True
        task.cancel()
        await asyncio.wait([task])
