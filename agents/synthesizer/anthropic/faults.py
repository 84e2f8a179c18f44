"""What can go wrong between us and a model, in one sentence each, and whether trying again can help."""

import email.utils
import time
from collections.abc import Callable, Mapping
from json import JSONDecodeError

import anthropic

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


class ModelFault(Exception):
    """Carries a fault out of AutoGen's agent."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class MalformedAnswer(Exception):
    """The server answered 200 with something that is not a message."""


def classify(error: Exception, model: str, settings: Settings) -> Fault | None:
    """Name the fault behind an exception of the SDK; None if it is none of a request's own (a defect of ours)."""
    url = public_url(settings.url)
    if isinstance(error, anthropic.APIStatusError):
        return _status_fault(error, model, settings)
    if isinstance(error, anthropic.APITimeoutError):
        message = f"no answer from {url} within {settings.timeout_s:g} s: the model is slow or the network hangs"
        return Fault(kind="timeout", message=message, retryable=True)
    if isinstance(error, anthropic.APIConnectionError):
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        message = f"cannot reach {url}{cause}: check the network and ANTHROPIC_BASE_URL"
        return Fault(kind="connection", message=settings.redact(message), retryable=True)
    if isinstance(error, MalformedAnswer | JSONDecodeError | anthropic.APIResponseValidationError):
        message = f"{url} answered with something that is not a message ({error}): is ANTHROPIC_BASE_URL right?"
        return Fault(kind="malformed", message=settings.redact(message), retryable=True)
    return None


Sentence = Callable[[str, str], str]
"""From (model, address) to what to do."""

_SENTENCES: Mapping[int, tuple[str, Sentence]] = {
    400: ("invalid_request", lambda model, url: f"{url} refused the request for {model!r}"),
    401: ("authentication", lambda model, url: f"{url} does not accept the key: check ANTHROPIC_API_KEY"),
    402: ("billing", lambda model, url: f"{url} wants to be paid: check the account's billing"),
    403: (
        "permission",
        lambda model, url: f"the key may not use {model!r} at {url}: use another --model or another key",
    ),
    404: ("not_found", lambda model, url: f"{url} has no model {model!r}: check --model and ANTHROPIC_BASE_URL"),
    413: ("too_large", lambda model, url: f"the request is too large for {url}: use a smaller problem file"),
    429: ("rate_limit", lambda model, url: f"{url} limits the rate for {model!r}: try later or with fewer workers"),
    529: ("overloaded", lambda model, url: f"{url} is overloaded: try later"),
}


def _status_fault(error: anthropic.APIStatusError, model: str, settings: Settings) -> Fault:
    status, url = error.status_code, public_url(settings.url)
    kind, sentence = _SENTENCES.get(status, ("server" if status >= 500 else "refused", _unknown_status))
    detail = f" ({status}: {error.api_message})" if error.api_message else f" ({status})"
    headers = error.response.headers
    return Fault(
        kind=kind,
        message=settings.redact(sentence(model, url) + detail),
        retryable=_may_work_later(status, headers),
        wait_s=parse_wait(headers, time.time()),
    )


def _unknown_status(model: str, url: str) -> str:
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
