"""What secrets look like: by the forms of keys and paths, and literally those of the environment that exports.

A regular expression looks at every character of a text, and there are gigabytes of them. So each rule names marks:
texts of which one must be there if the pattern is. To look for those costs next to nothing.
"""

import getpass
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TAIL = r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret|token|password|passwd|pwd|credentials?)"
_VARIABLES = (
    *("PATH", "HOME", "USER", "USERNAME", "LOGNAME", "HOSTNAME", "SHELL", "PWD", "OLDPWD", "MAIL"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV"),
)
_FAMILIES = (
    *("SSH", "AWS", "AZURE", "GOOGLE", "GCP", "GITHUB", "GITLAB", "CI", "HF", "HUGGING_FACE", "WANDB", "ANTHROPIC"),
    *("OPENAI", "NATS", "KERNELSWARM", "XDG", "DBUS", "SLURM", "KUBERNETES", "DOCKER", "CONDA", "SUDO"),
)
_NAMES = rf"(?:{'|'.join(_VARIABLES)}|(?:{'|'.join(_FAMILIES)})_[A-Z0-9_]+)"
_NAME_MARKS = (*_VARIABLES, *(f"{family}_" for family in _FAMILIES))
_QUOTE = r"\\*[\"']"
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf]))"
"""Beginning of a word; an escape in front of it, as in JSON inside of text, does not belong to it."""
_VALUE = r"[^\s\"'\\]"

_ALIKE = (("i\u0307", "i"), ("\u0131", "i"), ("\u017f", "s"))
"""What a pattern without case takes for an ASCII letter, beside what :meth:`str.lower` makes one."""


def folded(text: str) -> str:
    """``text`` in lower case, with ASCII letters wherever a pattern without case would take one."""
    low = text.lower()
    if not low.isascii():
        for alike, letter in _ALIKE:
            low = low.replace(alike, letter)
    return low


@dataclass(frozen=True)
class Rule:
    """One form of secret."""

    kind: str
    pattern: re.Pattern[str]
    marks: tuple[str, ...]
    """A text without any of them has no match; of a pattern without case they are in lower case."""
    kept: str = ""
    """Group in front of the secret that stays; empty: none."""

    @property
    def caseless(self) -> bool:
        """Whether upper and lower case are the same to it."""
        return bool(self.pattern.flags & re.IGNORECASE)

    def maybe_in(self, text: str) -> bool:
        """Whether ``text`` has a mark."""
        folded_text = folded(text) if self.caseless else text
        return any(mark in folded_text for mark in self.marks)


RULES: tuple[Rule, ...] = tuple(
    Rule(kind, re.compile(pattern, flags), tuple(marks), "kept" if "(?P<kept>" in pattern else "")
    for kind, pattern, flags, marks in (
        ("private_key", r"-----BEGIN (?P<what>[A-Z ]+)-----.*?-----END (?P=what)-----", re.DOTALL, ("-----BEGIN ",)),
        ("url_credentials", rf"(?P<kept>{_START}[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@\"'\\<>{{}}]+(?=@)", 0, ("://",)),
        (
            "url_credentials",
            # Sessions that were opened before addresses with a query were refused may have one.
            r"(?P<kept>[?&][\w.-]*(?:key|token|secret|passw(?:or)?d|signature)=)[^\s\"'\\&#=<>{}][^\s\"'\\&#<>{}]*",
            re.IGNORECASE,
            ("key=", "token=", "secret=", "password=", "passwd=", "signature="),
        ),
        (
            "authorization",
            r"(?P<kept>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{12,}",
            re.IGNORECASE,
            ("bearer", "basic"),
        ),
        (
            "api_key",
            _START + r"(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
            r"|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[\w-]{30,}|xox[abeprs]-[\w-]{10,}|hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}"
            r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}"
            r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})(?![A-Za-z0-9])",
            0,
            (
                *(
                    "sk-",
                    "ghp_",
                    "gho_",
                    "ghu_",
                    "ghs_",
                    "ghr_",
                    "github_pat_",
                    "glpat-",
                    "AKIA",
                    "ASIA",
                    "AIza",
                    "xox",
                ),
                *("hf_", "nvapi-", "npm_", "pypi-", "eyJ"),
            ),
        ),
        (
            "api_key",
            # Its first letter stands in front, so that the search can leap to it: words like SOURCE are in every text.
            r"S(?:(?<![A-Za-z0-9_]S)|(?<=\\[nrtbf]S))[UAONCX][A-Z2-7]{56}(?![A-Za-z0-9])",
            0,
            ("SU", "SA", "SO", "SN", "SC", "SX"),
        ),
        (
            "environment",
            rf"(?P<kept>{_START}(?=[A-Z][A-Z0-9_]+=){_NAMES}=)(?:(?!\\+n)[^\r\n\"'])+",
            0,
            _NAME_MARKS,
        ),
        ("environment", rf"(?P<kept>{_QUOTE}{_NAMES}{_QUOTE}\s*:\s*{_QUOTE})[^\"'\\\r\n]+", 0, _NAME_MARKS),
        (
            "secret",
            rf"(?P<kept>{_START}[A-Z0-9_]*{_TAIL.upper().replace('[_-]', '_')}=){_VALUE}{{6,}}",
            0,
            ("KEY=", "SECRET=", "TOKEN=", "PASSWORD=", "PASSWD=", "PWD=", "CREDENTIAL=", "CREDENTIALS="),
        ),
        (
            "secret",
            rf"(?P<kept>{_TAIL}(?:{_QUOTE})?\s*[:=]\s*{_QUOTE}){_VALUE}{{6,}}(?={_QUOTE})",
            re.IGNORECASE,
            ("key", "secret", "token", "password", "passwd", "pwd", "credential"),
        ),
        (
            "home_path",
            r"(?P<kept>/(?:home|Users|(?:var|export)\\*/home)\\*/)[^\s/\"'\\:;,<>()\[\]{}$*]+",
            0,
            ("/home", "/Users"),
        ),
        ("home_path", _START + r"(?P<kept>[A-Za-z]:(?:\\+|/)Users(?:\\+|/))[^\s/\"'\\:;,<>]+", 0, ("Users",)),
        ("home_path", r"(?<![\w./-])/root(?=[/\s\"'\\:;,)]|$)", 0, ("/root",)),
    )
)
"""In the order in which they are applied."""

_TELLING_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_COMMON_USERS = frozenset(("root", "user", "admin", "ubuntu", "runner", "test", "work", "worker", "build", "nobody"))


def literal_rules(environment: Mapping[str, str] | None, user: str | None, home: str | None) -> Iterator[Rule]:
    """What is known to the letter; by default of this process's environment, user and home folder."""
    variables = os.environ if environment is None else environment
    for name, value in variables.items():
        if _TELLING_NAME.search(name) and _is_secret(value):
            yield Rule("environment", re.compile(re.escape(value)), (value,))
    folder = str(Path.home()) if home is None else home
    if len(Path(folder).parts) > 2:
        yield Rule("home_path", re.compile(re.escape(folder) + r"(?![\w-])"), (folder,))
    named = _user() if user is None else user
    if len(named) >= 3 and named.lower() not in _COMMON_USERS:
        yield Rule("user_name", re.compile(rf"(?<![A-Za-z0-9_]){re.escape(named)}(?![A-Za-z0-9_])"), (named,))


def _is_secret(value: str) -> bool:
    """A path or a word tells nothing, and would be found everywhere."""
    return len(value) >= (16 if value.isalpha() else 8) and not _is_path(value)


def _is_path(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except OSError:
        return False  # too long for one: keys may begin with a slash as well


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a container whose user has no name
