"""Every subject and durable name there is, made in one place from tokens that were looked at.

The server accepts a wildcard in a published subject, so a session called ``*`` would reach every session: names that
are not plain tokens are refused here, before they become part of a subject.
"""

import functools
import re
from collections.abc import Sequence

from ..schemas import Event, InputError, event_tag

STREAM = "EVENTS"
"""Name of the one stream."""

STREAM_SUBJECT = "ks.v1.>"
"""What the stream keeps. Core traffic (``ks.rpc``, ``ks.live``) lies beside it and is never stored."""

ANY = "*"
"""Stands for every pool in :func:`role_filters`."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PLAIN = re.compile(r"[A-Za-z0-9-]{1,64}")
_TAG = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@functools.lru_cache(4096)
def event_subject(session: str, pool: str, tag: str) -> str:
    """``ks.v1.<session>.<pool>.<tag with dashes>``.

    Raises:
        InputError: a name is not a plain token (``[A-Za-z0-9_-]``, at most 128 characters).
    """
    return f"ks.v1.{_token('session', session)}.{_token('pool', pool)}.{_tag_token(tag)}"


def session_of(subject: str) -> tuple[str, str]:
    """Session and tag token of an event's subject."""
    parts = subject.split(".")
    return parts[2], parts[4]


def session_filter(session: str | None) -> str:
    """Everything said in ``session``, or in every session."""
    return STREAM_SUBJECT if session is None else f"ks.v1.{_token('session', session)}.>"


def role_filters(pool: str, kinds: Sequence[type[Event]], session: str | None = None) -> list[str]:
    """What a role answers: ``ks.v1.*.<pool>.<tag>`` for each kind, sorted; every tag if ``kinds`` is empty."""
    session_token = ANY if session is None else _token("session", session)
    pool = pool if pool == ANY else _token("pool", pool)
    if not kinds and session_token == pool == ANY:
        return [STREAM_SUBJECT]
    tags = sorted({_tag_token(event_tag(kind)) for kind in kinds}) or [ANY]
    return [f"ks.v1.{session_token}.{pool}.{tag}" for tag in tags]


def durable_name(pool: str, role: str, session: str | None = None) -> str:
    """Name of the consumer that all workers of ``role`` for ``pool`` share.

    Pool and role have no underscore in them, so no two triples share a name.
    """
    pool = "" if pool == ANY else _plain("pool", pool)
    name = f"{pool}_{_plain('role', role)}"
    return name if session is None else f"{name}_{_token('session', session)}"


def rpc_subject(name: str) -> str:
    """Subject of the service ``name``."""
    return f"ks.rpc.v1.{_token('service', name)}"


def live_subject(pool: str, role: str) -> str:
    """Subject of the heartbeats of one role of one pool."""
    return f"ks.live.v1.{_token('pool', pool)}.{_token('role', role)}"


ROLL_CALL = "ks.rollcall.v1"
"""A question to every worker: who is there?"""


def _tag_token(tag: str) -> str:
    if len(tag) > 128 or not _TAG.fullmatch(tag):
        raise InputError(f"event tag {_shown(tag)} cannot travel: use lower-case words with dots between them")
    return tag.replace(".", "-")


def _token(kind: str, name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise InputError(
            f"{kind} {_shown(name)} is not a usable name: use letters, digits, '_' and '-', at most 128 of them"
        )
    return name


def _plain(kind: str, name: str) -> str:
    if not _PLAIN.fullmatch(name):
        raise InputError(f"{kind} {_shown(name)} is not a usable name: use letters, digits and '-', at most 64 of them")
    return name


def _shown(name: str) -> str:
    return repr(name if len(name) <= 64 else name[:64] + "…")
