"""Large things by their content: the bus's object store."""

import io
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nats.js import api
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore

from ..schemas import Artifact, BusError, InputError, sha256
from .link import Link
from .stream import MAX_AGE_SECONDS

T = TypeVar("T")

_BUCKET = "ks-artifacts"
_ATTEMPT_SECONDS = 20.0
# The client's ordered consumer may wait forever for a chunk that a restart has swallowed.
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Artifacts:
    """Puts and gets bytes under their sha256. Putting the same bytes twice stores them once."""

    def __init__(self, link: Link, replicas: int) -> None:
        self._link = link
        self._replicas = replicas
        self._store: ObjectStore | None = None

    async def put(self, data: bytes, *, name: str, media_type: str) -> Artifact:
        """Store ``data``; what an event says of it.

        Raises:
            BusError: the server refuses (its disk is full), or stayed away.
        """
        key = sha256(data)
        store = await self._bucket()

        async def attempt() -> None:
            try:
                if (await store.get_info(key)).size == len(data):
                    return
            except NotFoundError:
                pass
            await store.put(key, data)

        await self._tried(f"store artifact {name}", attempt)
        return Artifact(sha256=key, size=len(data), media_type=media_type, name=name)

    async def get(self, key: str) -> bytes:
        """The bytes whose sha256 is ``key``.

        Raises:
            InputError: ``key`` is not a sha256.
            BusError: nobody put them, they are damaged, or the server stayed away.
        """
        if not _SHA256.fullmatch(key):
            raise InputError(f"{key[:80]!r} is not a sha256: 64 hexadecimal digits")
        store = await self._bucket()

        async def attempt() -> bytes:
            buffer = io.BytesIO()
            # Without writeinto the client joins the chunks in quadratic time.
            await store.get(key, writeinto=buffer)
            return buffer.getvalue()

        try:
            data = await self._tried(f"hand out artifact {key}", attempt)
        except NotFoundError as error:
            raise BusError(
                f"the event bus at {self._link.url} holds no artifact {key}: it was never put, or a month ago"
            ) from error
        if sha256(data) != key:
            raise BusError(f"artifact {key} came damaged from the event bus at {self._link.url}")
        return data

    async def _bucket(self) -> ObjectStore:
        if self._store is None:
            try:
                self._store = await self._tried("open its artifacts", lambda: self._link.js.object_store(_BUCKET))
            except NotFoundError:
                config = api.ObjectStoreConfig(
                    bucket=_BUCKET, ttl=MAX_AGE_SECONDS, storage=api.StorageType.FILE, replicas=self._replicas
                )
                self._store = await self._tried(
                    "create its artifacts", lambda: self._link.js.create_object_store(_BUCKET, config=config)
                )
        return self._store

    async def _tried(self, action: str, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self._link.retried(action, attempt, seconds=_ATTEMPT_SECONDS)
