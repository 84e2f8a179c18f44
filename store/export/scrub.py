"""Takes out of texts what must not leave the machine: keys, environment, user names, home paths, credentials in URLs.

Redacting is by pattern, and by the literal secrets of the environment that exports. Each finding becomes
``[redacted:kind]``; what stands around it stays, also inside JSON inside JSON.
"""

import getpass
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_TAIL = r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret|token|password|passwd|pwd|credentials?)"
_NAMES = (
    r"(?:PATH|HOME|USER|USERNAME|LOGNAME|HOSTNAME|SHELL|PWD|OLDPWD|MAIL|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|VIRTUAL_ENV"
    r"|(?:SSH|AWS|AZURE|GOOGLE|GCP|GITHUB|GITLAB|CI|HF|HUGGING_FACE|WANDB|ANTHROPIC|OPENAI|NATS|KERNELSWARM|XDG|DBUS"
    r"|SLURM|KUBERNETES|DOCKER|CONDA|SUDO)_[A-Z0-9_]+)"
)
_QUOTE = r"\\*[\"']"
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf]))"
"""Beginning of a word; an escape in front of it, as in JSON inside of text, does not belong to it."""
_VALUE = r"[^\s\"'\\]"

_PATTERNS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (kind, re.compile(pattern, flags), kept)
    for kind, pattern, flags, kept in (
        ("private_key", r"-----BEGIN (?P<what>[A-Z ]+)-----.*?-----END (?P=what)-----", re.DOTALL, ""),
        ("url_credentials", rf"(?P<kept>{_START}[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@\"'\\<>{{}}]+(?=@)", 0, "kept"),
        ("authorization", r"(?P<kept>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE, "kept"),
        (
            "api_key",
            _START + r"(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
            r"|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[\w-]{30,}|xox[abeprs]-[\w-]{10,}|hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}"
            r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|S[UAONCX][A-Z2-7]{56}"
            r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})(?![A-Za-z0-9])",
            0,
            "",
        ),
        ("environment", rf"(?P<kept>{_START}(?=[A-Z][A-Z0-9_]+=){_NAMES}=)(?:(?!\\+n)[^\r\n\"'])+", 0, "kept"),
        ("environment", rf"(?P<kept>{_QUOTE}{_NAMES}{_QUOTE}\s*:\s*{_QUOTE})[^\"'\\\r\n]+", 0, "kept"),
        (
            "secret",
            rf"(?P<kept>{_START}[A-Z0-9_]*{_TAIL.upper().replace('[_-]', '_')}=){_VALUE}{{6,}}",
            0,
            "kept",
        ),
        (
            "secret",
            rf"(?P<kept>{_TAIL}(?:{_QUOTE})?\s*[:=]\s*{_QUOTE}){_VALUE}{{6,}}(?={_QUOTE})",
            re.IGNORECASE,
            "kept",
        ),
        ("home_path", r"(?P<kept>/(?:home|Users|var/home|export/home)/)[^\s/\"'\\:;,<>()\[\]{}$*]+", 0, "kept"),
        ("home_path", _START + r"(?P<kept>[A-Za-z]:(?:\\+|/)Users(?:\\+|/))[^\s/\"'\\:;,<>]+", 0, "kept"),
        ("home_path", r"(?<![\w./-])/root(?=[/\s\"'\\:;,)]|$)", 0, ""),
    )
)
"""Kind, pattern, and the group in front of the secret that stays."""

_TELLING_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_COMMON_USERS = frozenset(("root", "user", "admin", "ubuntu", "runner", "test", "work", "worker", "build", "nobody"))


_SHORT, _MOST_CLEAN = 100, 100_000
"""Names of fields, tags and settings come again and again: those that were clean are remembered."""


class Scrubber:
    """Redacts texts and counts what it found, by kind, in :attr:`found`."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        user: str | None = None,
        home: str | None = None,
    ) -> None:
        """What is known literally: by default of this process's environment, user and home folder."""
        self.found: Counter[str] = Counter()
        self._clean: set[str] = set()
        known = os.environ if environment is None else environment
        self._literals = list(_literals(known, _user() if user is None else user, home))

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        if text in self._clean:
            return text
        before = text
        for kind, pattern, kept in _PATTERNS:
            text = pattern.sub(self._replacement(kind, kept), text)
        for kind, pattern in self._literals:
            text = pattern.sub(self._replacement(kind, ""), text)
        if text == before and len(text) <= _SHORT and len(self._clean) < _MOST_CLEAN:
            self._clean.add(text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value with every text in it, keys too, without secrets."""
        if isinstance(value, str):
            return self._nested(value) if value[:1] in ("{", "[") else self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def _nested(self, text: str) -> str:
        """A text that is JSON itself stays JSON: what is in it is looked at without its escapes."""
        try:
            said = json.loads(text)
        except ValueError:
            return self.text(text)
        clean = self.value(said)
        return text if clean == said else json.dumps(clean, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def message(self, data: bytes) -> tuple[bytes, bool]:
        """The wire bytes of an event without secrets, on one line, and whether anything had to be taken out."""
        said = json.loads(data)
        clean = self.value(said)
        if clean == said:
            # Between the parts of JSON a newline is a space, and inside its strings there is none.
            return data.replace(b"\n", b" ").replace(b"\r", b" "), False
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":")).encode(), True

    def _replacement(self, kind: str, kept: str) -> Callable[[re.Match[str]], str]:
        mark = f"[redacted:{kind}]"

        def replace(match: re.Match[str]) -> str:
            front = match[kept] if kept else ""
            if match[0] == front + mark or match[0][len(front) :].startswith("[redacted:"):
                return match[0]
            self.found[kind] += 1
            return front + mark

        return replace


def _literals(environment: Mapping[str, str], user: str, home: str | None) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, value in environment.items():
        # A path or a short word tells nothing, and would be found everywhere.
        if _TELLING_NAME.search(name) and len(value) >= 8 and not value.startswith("/") and not value.isalpha():
            yield "environment", re.compile(re.escape(value))
    folder = str(Path.home()) if home is None else home
    if len(Path(folder).parts) > 2:
        yield "home_path", re.compile(re.escape(folder) + r"(?![\w-])")
    if len(user) >= 3 and user.lower() not in _COMMON_USERS:
        yield "user_name", re.compile(rf"(?<![A-Za-z0-9_]){re.escape(user)}(?![A-Za-z0-9_])")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a container whose user has no name
