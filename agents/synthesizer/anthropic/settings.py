"""How the model is reached: key, address, limits. Read from the environment, checked before a session opens."""

import os
from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from ....schemas import InputError, Schema

DEFAULT_MODEL = "claude-opus-5-5"
"""Asked when the session names no model."""
DEFAULT_URL = "https://api.anthropic.com"
"""Where the SDK goes when ``ANTHROPIC_BASE_URL`` is not set."""


class Settings(Schema, frozen=True, kw_only=True):
    """Everything the backend needs to reach a model. The key never leaves this record and the SDK's client."""

    key: str
    """``ANTHROPIC_API_KEY``."""
    url: str = DEFAULT_URL
    """``ANTHROPIC_BASE_URL``."""
    max_tokens: int = 20_000
    """Longest answer, tokens, thinking included."""
    temperature: float | None = None
    """Sent only if set: newer models refuse it."""
    timeout_s: float = 300.0
    """Longest wait for one answer, seconds."""
    attempts: int = 3
    """Tries of one request, the first included."""
    longest_wait_s: float = 120.0
    """A server that asks for a longer pause than this fails the synthesis instead, seconds."""

    def __repr__(self) -> str:
        return f"Settings(url={public_url(self.url)!r}, max_tokens={self.max_tokens})"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read key and address.

        Raises:
            InputError: there is no key, or the key or the address cannot be used.
        """
        key = environment.get("ANTHROPIC_API_KEY", "").strip()
        if not key:
            raise InputError(
                "the synthesizer 'anthropic' needs a key: set ANTHROPIC_API_KEY, "
                "or use --synthesizer playbook, which needs none"
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise InputError(
                "ANTHROPIC_API_KEY holds a character that no key has (a space or one that is not ASCII): copy it again"
            )
        url = environment.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_URL
        _check_url(url)
        return cls(key=key, url=url)

    def redact(self, text: str) -> str:
        """``text`` without the key and without credentials in the address, fit for an event."""
        return text.replace(self.key, "[key]").replace(self.url, public_url(self.url))


def public_url(url: str) -> str:
    """``url`` without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        shown = url if "@" not in url else "an address"
        raise InputError(
            f"ANTHROPIC_BASE_URL is {shown!r}, which is no http address: set it to something like {DEFAULT_URL}, "
            "or unset it"
        )
