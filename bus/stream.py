"""The stream and its consumers as they have to be: created explicitly, compared and updated when they exist."""

import contextlib
from typing import Any

from nats.js import api
from nats.js.errors import APIError, NotFoundError

from ..schemas import BusError
from .link import Link
from .subjects import STREAM, STREAM_SUBJECT

DUPLICATE_WINDOW_SECONDS = 600.0
"""How long the stream remembers event ids; the log remembers them forever."""

MAX_AGE_SECONDS = 30 * 86400.0
"""How long the stream keeps events; the log keeps them forever."""

MOST_CONSUMERS = 1_000_000
"""Every session has one for each role for a day. Servers from 2.15 on give a stream that names no number a thousand."""

SESSION_CONSUMER_SECONDS = 86400.0
"""After so long without a worker the server forgets a consumer that belongs to one session."""


async def ensure_stream(link: Link, replicas: int) -> None:
    """Create the stream, or hold the existing one against what is needed.

    Raises:
        BusError: it differs in a way that cannot be changed, or the server refuses.
    """
    config = api.StreamConfig(
        name=STREAM,
        subjects=[STREAM_SUBJECT],
        retention=api.RetentionPolicy.LIMITS,
        storage=api.StorageType.FILE,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
        max_age=MAX_AGE_SECONDS,
        allow_direct=True,
        max_consumers=MOST_CONSUMERS,
        num_replicas=replicas,
    )
    try:
        info = await link.retried("describe its stream", lambda: link.js.stream_info(STREAM))
    except NotFoundError:
        await link.retried("create its stream", lambda: link.js.add_stream(config))
        return
    # Age, size and replicas are the operator's to choose: only what we rely on is compared.
    changes = _differences(config, info.config, ("subjects", "retention", "storage", "duplicate_window"))
    if changes:
        await _update(
            f"change its stream {STREAM}", changes, link, lambda: link.js.update_stream(info.config.evolve(**changes))
        )
    if (info.config.max_consumers or 0) < 1 and link.may(f"$JS.API.STREAM.UPDATE.{STREAM}"):
        # Older servers have no such default, and refuse to change the number.
        with contextlib.suppress(APIError):
            await link.js.update_stream(info.config.evolve(**changes, max_consumers=MOST_CONSUMERS))


def consumer_config(
    name: str, filters: list[str], *, ack_wait_s: float, idle_s: float | None, headers_only: bool = False
) -> api.ConsumerConfig:
    """The configuration of the durable ``name``; the server forgets it after ``idle_s`` seconds without a worker."""
    return api.ConsumerConfig(
        name=name,
        durable_name=name,
        filter_subjects=filters,
        deliver_policy=api.DeliverPolicy.ALL,
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=ack_wait_s,
        max_deliver=-1,
        max_ack_pending=10_000,
        inactive_threshold=idle_s,
        headers_only=headers_only or None,
    )


async def ensure_consumer(link: Link, config: api.ConsumerConfig) -> None:
    """Create the durable consumer, or hold the existing one against ``config`` and update it.

    Raises:
        BusError: it differs in a way that cannot be changed (the difference is named), or the server refuses.
    """
    name = config.durable_name or ""
    try:
        info = await link.retried(f"describe consumer {name}", lambda: link.js.consumer_info(STREAM, name))
    except NotFoundError:
        await link.retried(f"create consumer {name}", lambda: link.js.add_consumer(STREAM, config))
        return
    policies = ("deliver_policy", "ack_policy", "ack_wait", "max_deliver", "max_ack_pending", "headers_only")
    fields = ("filter_subjects", *policies)
    changes = _differences(config, _normalized(info.config), fields)
    if changes:
        await _update(f"change consumer {name}", changes, link, lambda: link.js.add_consumer(STREAM, config))


async def _update(action: str, changes: dict[str, Any], link: Link, request: Any) -> None:
    named = ", ".join(f"{field} to {value!r}" for field, value in changes.items())
    try:
        await link.retried(f"{action} ({named})", request)
    except NotFoundError as error:
        raise BusError(f"somebody deleted it while it was asked to {action}: try again") from error


def _normalized(config: api.ConsumerConfig) -> api.ConsumerConfig:
    # The server hands a single filter back in the other field.
    if config.filter_subject and not config.filter_subjects:
        return config.evolve(filter_subjects=[config.filter_subject], filter_subject=None)
    return config


def _differences(config: Any, existing: Any, fields: tuple[str, ...]) -> dict[str, Any]:
    return {
        field: getattr(config, field)
        for field in fields
        if _plain(getattr(config, field)) != _plain(getattr(existing, field))
    }


def _plain(value: Any) -> Any:
    # The server leaves out what is false.
    return sorted(value) if isinstance(value, list) else value or None
