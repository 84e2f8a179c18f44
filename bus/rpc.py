"""Questions and answers beside the stream: core NATS, nothing is stored."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ..schemas import BusError, InputError, KernelswarmError, LogCorrupted, PoolError, ProblemError, StoreError
from .cancelled import heeded
from .errors import NobodyServes
from .link import Link
from .subjects import rpc_subject

Handler = Callable[[bytes], Awaitable[bytes]]
"""Answers one request. A KernelswarmError it raises is raised again at the asker."""

_ERROR_HEADER = "Ks-Error"
_ERRORS: dict[str, type[KernelswarmError]] = {
    kind.__name__: kind for kind in (BusError, InputError, LogCorrupted, PoolError, ProblemError, StoreError)
}

_log = logging.getLogger("kernelswarm.bus")


class Service:
    """A name that is being served, until :meth:`aclose`. Several workers that serve one name share its requests."""

    def __init__(self, link: Link, name: str, handler: Handler) -> None:
        self._link = link
        self._name = name
        self._handler = handler
        self._subscription: Subscription | None = None
        self._answers: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to serve; returns when the server knows.

        Raises:
            BusError: the server does not let this user.
        """
        await self._link.connected()
        subject = rpc_subject(self._name)
        self._subscription = await self._link.nc.subscribe(subject, queue="serve", cb=self._receive)
        # The client's ping overtakes what waits in its buffer: only the second pong comes after the server's word.
        await self._link.nc.flush()
        await self._link.nc.flush()
        if not self._link.may(subject):
            raise BusError(
                f"the event bus at {self._link.url} does not let this user answer {self._name!r}: "
                "that is the recorder's"
            )

    async def aclose(self) -> None:
        """Stop serving; requests under way are given up."""
        if self._subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
        answers = list(self._answers)
        for task in answers:
            task.cancel()
        await asyncio.gather(*answers, return_exceptions=True)

    async def _receive(self, message: Msg) -> None:
        # A task each: a slow answer must not keep the next question waiting.
        task = asyncio.create_task(self._answer(message), name=f"rpc-{self._name}")
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, message: Msg) -> None:
        data, headers = await self._result(message.data)
        with contextlib.suppress(nats.errors.Error):  # the asker has gone, or hears of it by its timeout
            await self._link.nc.publish(message.reply, data, headers=headers)

    async def _result(self, payload: bytes) -> tuple[bytes, dict[str, str] | None]:
        try:
            data = await self._handler(payload)
        except KernelswarmError as error:
            return str(error).encode(), {_ERROR_HEADER: type(error).__name__}
        except Exception as error:  # noqa: BLE001  the asker must hear of a defect here, and the service must live on
            _log.exception("service %s failed", self._name)
            return f"service {self._name!r} failed: {error!r}".encode(), {_ERROR_HEADER: "BusError"}
        limit = self._link.nc.max_payload
        if len(data) > limit:
            reason = (
                f"the answer of {self._name!r} is {len(data):,} bytes, the event bus carries {limit:,}: ask for less"
            )
            return reason.encode(), {_ERROR_HEADER: "InputError"}
        return data, None


async def request(link: Link, name: str, payload: bytes, timeout: float) -> bytes:
    """Ask whoever serves ``name``.

    Raises:
        NobodyServes: nobody does.
        BusError: no answer within ``timeout`` seconds, or the payload is too large.
        KernelswarmError: what the service raised.
    """
    subject = rpc_subject(name)
    try:
        async with asyncio.timeout(timeout):
            await link.connected()
            answer = await heeded(link.nc.request(subject, payload, timeout=timeout))
    except nats.errors.NoRespondersError as error:
        raise NobodyServes(f"nobody serves {name!r} on the event bus at {link.url}") from error
    except TimeoutError as error:
        raise BusError(f"{name!r} did not answer within {timeout:g} s") from error
    except nats.errors.Error as error:
        raise BusError(f"{name!r} cannot be asked: {error}") from error
    failure = (answer.headers or {}).get(_ERROR_HEADER)
    if failure is not None:
        raise _ERRORS.get(failure, BusError)(answer.data.decode())
    return bytes(answer.data)
