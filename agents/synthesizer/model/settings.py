"""How a model is reached: key, address, limits. Read from the environment, checked before a session opens."""

import os
from collections.abc import Iterable, Mapping
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from ....schemas import InputError, Schema

SECRET_CHARACTERS = 12
"""A shorter key is no secret but a word that stands for none (``none``, ``dummy``), and a word of kernels, too."""

SECRET_VARIABLES = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"),
    "KERNELSWARM_MCP_TOKEN",
)
"""Environment variables whose values stand in no event, whoever is asked."""

_trusted: set[str] = set()


class VendorFacts(Schema, frozen=True, kw_only=True):
    """What is particular to a vendor before anything is asked."""

    name: str
    """Its backend."""
    key_variable: str
    """Environment variable with the key."""
    url_variable: str
    """Environment variable with another address."""
    url: str
    """Where its own service is."""
    model: str
    """Asked where the session names none."""
    is_open: bool = False
    """Whether servers elsewhere speak its format and need no key."""
    headers_variable: str = ""
    """Environment variable with headers that its library adds to every request, ``Name: value`` a line."""
    account_headers: tuple[str, ...] = ()
    """Headers that its library adds from other variables."""


class Settings(Schema, frozen=True, kw_only=True):
    """Everything a backend needs to reach a model. The key never leaves this record and the SDK's client."""

    vendor: VendorFacts
    key: str
    """Empty where the server needs none."""
    url: str
    url_option: str = ""
    """What the address was named by: ``--base-url``, or the environment variable."""
    max_tokens: int = 32_000
    """Longest answer, tokens, thinking included."""
    temperature: float | None = None
    """Sent only if set: newer models refuse it."""
    timeout_s: float = 300.0
    """Longest silence of the server, seconds."""
    longest_answer_s: float = 900.0
    """Seconds from a request to the end of its answer: a server that goes on sending is cut off."""
    attempts: int = 3
    """Tries of one request, the first included."""
    secrets: tuple[str, ...] = ()
    """What else of the environment no event may hold: other keys and tokens, values of headers."""
    withheld: tuple[str, ...] = ()
    """Headers that the library would add, and that are not sent: nobody here named this address."""
    longest_wait_s: float = 120.0
    """A server that asks for a longer pause than this fails the synthesis instead, seconds."""

    def __repr__(self) -> str:
        return f"Settings(url={public_url(self.url)!r}, max_tokens={self.max_tokens})"

    @classmethod
    def from_environment(
        cls, vendor: VendorFacts, base_url: str = "", environment: Mapping[str, str] = os.environ
    ) -> Self:
        """Read key and address; ``base_url`` of the session comes before the environment's.

        The key goes only where this process's user wants it: to the vendor's own service, to the address in the
        environment, to one that was named here, or to this machine. A session from elsewhere cannot send it away.

        Raises:
            InputError: there is no key, or the key or the address cannot be used.
        """
        own = environment.get(vendor.url_variable, "").strip()
        url = base_url or own or vendor.url
        check_url(url, "the base URL" if base_url else vendor.url_variable, vendor.url)
        key = environment.get(vendor.key_variable, "").strip()
        if not (key.isascii() and (key.isprintable() or not key)) or " " in key:
            raise InputError(
                f"{vendor.key_variable} holds a character that no key has (a space or one that is not ASCII): "
                "copy it again"
            )
        is_trusted = _is_trusted(url, own, vendor)
        if not is_trusted:
            key = ""
        if not key and not (vendor.is_open and url != vendor.url):
            raise InputError(
                f"the author {vendor.name!r} needs a key: set {vendor.key_variable}, "
                "or use --author generator, which needs none"
            )
        headers = _headers(environment.get(vendor.headers_variable, ""))
        return cls(
            vendor=vendor,
            key=key,
            url=url,
            url_option="--base-url" if base_url else vendor.url_variable,
            secrets=_secrets(environment, headers.values()),
            withheld=() if is_trusted else (*headers, *vendor.account_headers),
        )

    def redact(self, text: str) -> str:
        """``text`` without keys, tokens and credentials in the address, fit for an event and for a later request."""
        for secret in (self.key, *self.secrets):
            if len(secret) >= SECRET_CHARACTERS:
                text = text.replace(secret, "[key]")
        return text.replace(self.url, public_url(self.url))


def _headers(text: str) -> dict[str, str]:
    """As the vendors' libraries read them."""
    parts = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in parts if colon}


def _secrets(environment: Mapping[str, str], headers: Iterable[str]) -> tuple[str, ...]:
    """The longest first: one may hold another."""
    named = (environment.get(name, "").strip() for name in SECRET_VARIABLES)
    words = (word for value in headers for word in (value, *value.split()))
    return tuple(sorted({secret for secret in (*named, *words) if len(secret) >= SECRET_CHARACTERS}, key=len)[::-1])


def trust(url: str) -> None:
    """From now on the key of this process's environment may be sent to ``url``: its user named it."""
    _trusted.add(url)


def public_url(url: str) -> str:
    """``url`` without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_url(url: str, where: str = "the base URL", example: str = "http://localhost:8000/v1") -> None:
    """Refuse what is no address of a server.

    Args:
        url: What was given.
        where: Who gave it, as a message names it.
        example: An address that is fit.

    Raises:
        InputError: it is no http address, or has a user, a password, a query or a fragment: keys stand there, and
            libraries put the path of a request behind it.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    shown = "an address" if "@" in url else url.partition("?")[0].partition("#")[0]
    if usable and "@" in parts.netloc:
        raise InputError(
            f"{where} holds a user or a password, which the log would keep: take what stands before the '@' out of it, "
            "and put the key into OPENAI_API_KEY or ANTHROPIC_API_KEY"
        )
    if not usable:
        raise InputError(
            f"{where} is {shown!r}, which is no http address: set it to something like {example}, or leave it out"
        )
    if "?" in url or "#" in url:
        raise InputError(
            f"{where} is {shown!r} with a query or a fragment: a key in it may reach the log, and requests would have "
            "their path behind it; end it before the '?' or '#', and put the key into OPENAI_API_KEY or "
            "ANTHROPIC_API_KEY"
        )


def check_model(model: str, vendor: VendorFacts) -> None:
    """Refuse what is no model's name.

    Raises:
        InputError: it holds a space or a character that cannot be printed.
    """
    if model and (not model.isprintable() or any(character.isspace() for character in model)):
        raise InputError(f"--model {model!r} is no model's name: use one like {vendor.model}")


def _is_trusted(url: str, own: str, vendor: VendorFacts) -> bool:
    host = urlsplit(url).hostname or ""
    return url in (vendor.url, own) or url in _trusted or host in ("localhost", "127.0.0.1", "::1")
