"""Takes out of texts what must not leave the machine: keys, environment, user names, home paths, credentials in URLs.

Redacting is by pattern, and by the literal secrets of the environment that exports. Each finding becomes
``[redacted:kind]``; what stands around it stays, also inside JSON inside JSON.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .patterns import RULES, Rule, folded, literal_rules

_SHORT, _MOST_CLEAN = 100, 100_000
"""Names of fields, tags and settings come again and again: those that were clean are remembered."""

_LONG, _LONG_CLEAN = 65_536, 256
"""So many longer ones are remembered as well: answers to one prompt come one after the other."""

_PLAIN = re.compile(r"[^\"\\\x00-\x1f\x7f]+")
"""What JSON spells as it is, however often it is put into JSON again."""

_HIDING = (r"\\u", r"\\/", r"\x{130}", r"\x{131}")
"""Patterns of what can hide a mark: JSON's other spellings, and letters that RE2 does not take for an i."""


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
        self.replacements: Counter[str] = Counter()
        self._clean: set[str] = set()
        self._long: dict[str, None] = {}
        self._rules = (*RULES, *literal_rules(environment, user, home))
        caseless = {mark for rule in self._rules if rule.caseless for mark in rule.marks}
        self._marks = _shortest(_in_json(mark) for rule in self._rules if not rule.caseless for mark in rule.marks)
        self._caseless_marks = _shortest(caseless)

    @property
    def suspicion(self) -> str:
        """Pattern (of RE2, as DuckDB has it) that is found in every JSON in which something may have to be redacted."""
        caseless = (f"(?i:{_quoted(mark)})" for mark in self._caseless_marks)
        return "|".join((*map(_quoted, self._marks), *caseless, *_HIDING))

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        if text in self._clean or text in self._long:
            return text
        clean = text
        for rule in self._rules if self._maybe_in(text) else ():
            if rule.maybe_in(clean):
                clean = rule.pattern.sub(self._replacement(rule), clean)
        if clean == text:
            self._remember(text)
        return clean

    def value(self, value: Any) -> Any:
        """A JSON value with every text in it, keys too, without secrets."""
        if isinstance(value, str):
            return self._nested(value) if value[:1] in ("{", "[") else self.text(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def message(self, data: bytes, *, suspicious: bool = True) -> tuple[bytes, bool]:
        """The wire bytes of an event without secrets, on one line, and whether anything had to be taken out.

        What :attr:`suspicion` is not in need not be looked at again.
        """
        decoded = json.loads(data) if suspicious else None
        clean = self.value(decoded)
        if clean == decoded:
            # Between the parts of JSON a newline is a space, and inside its strings there is none.
            return data.replace(b"\n", b" ").replace(b"\r", b" "), False
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":")).encode(), True

    def _nested(self, text: str) -> str:
        """A text that is JSON itself stays JSON: what is in it is looked at without its escapes."""
        try:
            decoded = json.loads(text)
        except ValueError:
            return self.text(text)
        clean = self.value(decoded)
        return (
            text if clean == decoded else json.dumps(clean, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        )

    def _maybe_in(self, text: str) -> bool:
        """Whether ``text`` has a mark of any rule, or what is left of it in JSON."""
        if any(mark in text for mark in self._marks):
            return True
        low = folded(text)
        return any(mark in low for mark in self._caseless_marks)

    def _remember(self, text: str) -> None:
        if len(text) <= _SHORT and len(self._clean) < _MOST_CLEAN:
            self._clean.add(text)
        elif _SHORT < len(text) <= _LONG:
            self._long[text] = None
            if len(self._long) > _LONG_CLEAN:
                del self._long[next(iter(self._long))]  # the oldest

    def _replacement(self, rule: Rule) -> Callable[[re.Match[str]], str]:
        mark = f"[redacted:{rule.kind}]"

        def replace(match: re.Match[str]) -> str:
            front = match[rule.kept] if rule.kept else ""
            if match[0] == front + mark or match[0][len(front) :].startswith("[redacted:"):
                return match[0]
            self.replacements[rule.kind] += 1
            return front + mark

        return replace


def _in_json(mark: str) -> str:
    """The longest part of ``mark`` that stands in JSON as it is; empty, and so in every text, if there is none."""
    return max(_PLAIN.findall(mark), key=len, default="")


def _quoted(mark: str) -> str:
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: "\\" + match[0], mark)


def _shortest(marks: Iterable[str]) -> tuple[str, ...]:
    """Those that hold no other one: what has the longer has the shorter."""
    every = set(marks)
    return tuple(sorted(mark for mark in every if not any(other in mark for other in every - {mark})))
