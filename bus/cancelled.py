"""Cancellations that get lost below us.

nats-py 2.16 swallows one while it flushes (``_flush_pending``), and Python 3.11's ``wait_for``, under its requests, one
that comes in the same moment as the answer.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def heeded(work: Awaitable[T]) -> T:
    """Do ``work`` and raise a cancellation that came meanwhile and was swallowed.

    Without it a task that is cancelled while it sends or asks goes on for ever, and whoever waits for its end with it.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        result = await work
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result
