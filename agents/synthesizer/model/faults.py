"""What can go wrong between us and a model, in one sentence each, and whether trying again can help."""

import email.utils
import time
from collections.abc import Callable, Mapping
from json import JSONDecodeError
from types import ModuleType
from typing import Any

import httpx2

from ....schemas import Schema
from .settings import Settings, public_url


class Fault(Schema, frozen=True, kw_only=True):
    """A request to a model that brought no usable answer."""

    kind: str
    """``authentication``, ``rate_limit``, ``connection``, ``timeout``, ``malformed``, …"""
    message: str
    """One sentence for people, with the way out; no secrets."""
    retryable: bool
    """Whether the same request may work later."""
    wait_s: float | None = None
    """Pause that the server asked for, seconds; None if it did not say."""
    was_sent: bool = False
    """Whether the server had the whole request: it may be paid for, though no answer came."""


class ModelFault(Exception):
    """Carries a fault out of AutoGen's agent."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class MalformedAnswer(Exception):
    """The server answered 200 with something that is not a message."""


class BrokenStream(Exception):
    """The answer ended before it was complete."""


def classify(error: Exception, sdk: ModuleType, model: str, settings: Settings) -> Fault | None:
    """Name the fault behind an exception; None if it is none of a request's own (a defect of ours).

    ``sdk`` is the vendor's: both libraries name their errors alike.
    """
    url, option = public_url(settings.url), _url_option(settings)
    if isinstance(error, sdk.APIStatusError):
        return _status_fault(error, model, settings)
    if isinstance(error, sdk.APITimeoutError | httpx2.TimeoutException):
        message = f"no answer from {url} within {settings.timeout_s:g} s: the model is slow or the network hangs"
        return Fault(kind="timeout", message=message, retryable=True, was_sent=_was_sent(error))
    if isinstance(error, BrokenStream | httpx2.RemoteProtocolError):
        message = f"the answer of {url} broke off ({error}): the connection or the server failed half-way"
        return Fault(kind="broken_stream", message=settings.redact(message), retryable=True, was_sent=True)
    if isinstance(error, sdk.APIConnectionError | httpx2.HTTPError):
        cause = error.__cause__ or error
        # Some say nothing but what they are.
        reason = str(cause) or type(cause).__name__
        message = f"cannot reach {url} ({reason}): check the network and {option}"
        return Fault(kind="connection", message=settings.redact(message), retryable=True, was_sent=_was_sent(error))
    if isinstance(error, MalformedAnswer | JSONDecodeError | sdk.APIResponseValidationError):
        message = f"{url} answered with something that is not a message ({error}): is {option} right?"
        return Fault(kind="malformed", message=settings.redact(message), retryable=True)
    if isinstance(error, sdk.APIError):
        message = f"{url} broke the answer off with an error ({error.message}): try later"
        return Fault(kind="server", message=settings.redact(message), retryable=True)
    return None


def _url_option(settings: Settings) -> str:
    return settings.url_option or settings.vendor.url_variable


def _was_sent(error: Exception) -> bool:
    """Whether it was the answer that could not be read, not the request that could not be sent."""
    return isinstance(error.__cause__ or error, httpx2.ReadTimeout | httpx2.ReadError | httpx2.RemoteProtocolError)


Sentence = Callable[[str, str, Settings], str]
"""From (model, address, settings) to what to do."""

_SENTENCES: Mapping[int, tuple[str, Sentence]] = {
    400: ("invalid_request", lambda model, url, _: f"{url} refused the request for {model!r}"),
    401: (
        "authentication",
        lambda model, url, settings: f"{url} does not accept the key: check {settings.vendor.key_variable}",
    ),
    402: ("billing", lambda model, url, _: f"{url} wants to be paid: check the account's billing"),
    403: (
        "permission",
        lambda model, url, _: f"the key may not use {model!r} at {url}: use another --model or another key",
    ),
    404: (
        "not_found",
        lambda model, url, settings: f"{url} has no model {model!r}: check --model and {_url_option(settings)}",
    ),
    413: ("too_large", lambda model, url, _: f"the request is too large for {url}: use a smaller problem file"),
    429: ("rate_limit", lambda model, url, _: f"{url} limits the rate for {model!r}: try later or with fewer workers"),
    529: ("overloaded", lambda model, url, _: f"{url} is overloaded: try later"),
}

_REDIRECTS = (301, 302, 303, 307, 308)
_IN_STREAM = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504}
"""Errors in the middle of an answer, whose status was 200."""


def _status_fault(error: Any, model: str, settings: Settings) -> Fault:
    status, url = error.status_code, public_url(settings.url)
    if status in _REDIRECTS:
        message = f"{url} sends requests on to another address: name that one ({_url_option(settings)})"
        return Fault(kind="redirect", message=message, retryable=False)
    if status < 400:
        status = _IN_STREAM.get(str(getattr(error, "type", "")), 500)
    kind, sentence = _SENTENCES.get(status, ("server" if status >= 500 else "refused", _unknown_status))
    reason = _server_message(error)
    detail = f" ({status}: {reason})" if reason else f" ({status})"
    headers = error.response.headers
    quota = getattr(error, "code", None) == "insufficient_quota"
    return Fault(
        kind="billing" if quota else kind,
        message=settings.redact(sentence(model, url, settings) + detail),
        retryable=not quota and _may_work_later(status, headers),
        wait_s=parse_wait(headers, time.time()),
    )


def _server_message(error: Any) -> str:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message") if isinstance(inner, dict) else inner
    return str(body or "")[:500]


def _unknown_status(model: str, url: str, settings: Settings) -> str:
    return f"{url} could not answer the request for {model!r}"


def _may_work_later(status: int, headers: Mapping[str, str]) -> bool:
    should_retry = headers.get("x-should-retry")
    if should_retry in ("true", "false"):
        return should_retry == "true"
    return status in (408, 409, 429) or status >= 500


def parse_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` (seconds, or a date against ``now``) ask for; None if neither.

    Raises nothing: a header that cannot be read counts as absent.
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        retry_after = headers.get("retry-after")
        return None if retry_after is None else max(0.0, float(retry_after))
    except ValueError:
        date = email.utils.parsedate_tz(headers.get("retry-after", ""))
        return None if date is None else max(0.0, email.utils.mktime_tz(date) - now)
