"""Questions to the log that somebody has asked before: one SQL file each, beside this one.

A file begins with comments that are YAML: ``title``, ``meaning`` of the answer, ``columns`` (what each holds), and
``parameters`` (default and meaning), which stand in the SQL as ``$name``.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ...schemas import InputError, Schema
from ..query import run_sql
from ..query_sandbox import Table

if TYPE_CHECKING:
    from ...bus import Bus

Value = str | int | float

ROWS = 40
"""Most rows of the log that an author is shown."""


class Parameter(Schema, frozen=True, kw_only=True):
    """What a question can be told."""

    default: Value | None
    """None: it has to be given."""
    meaning: str


class Question(Schema, frozen=True, kw_only=True):
    """A question with the meaning of its answer."""

    name: str
    title: str
    """The question, in a sentence."""
    meaning: str
    """How the answer is to be read."""
    columns: dict[str, str]
    """What each column of the answer holds, in order."""
    parameters: dict[str, Parameter]
    sql: str

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Every parameter's value: the given one, in the type of the default, else the default.

        Raises:
            InputError: there is no such parameter, one is missing, or the value is not of its type.
        """
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            there = ", ".join(self.parameters) or "none"
            raise InputError(f"The question {self.name} has no parameter {unknown[0]!r}; it has: {there}.")
        missing = [
            name for name, parameter in self.parameters.items() if parameter.default is None and name not in given
        ]
        if missing:
            raise InputError(
                f"The question {self.name} needs its parameter {missing[0]}: {self.parameters[missing[0]].meaning}."
            )
        return {
            name: _typed(name, given.get(name, parameter.default), parameter)
            for name, parameter in self.parameters.items()
        }


def questions() -> list[Question]:
    """All of them, by name."""
    files = [file for file in resources.files(__package__).iterdir() if file.name.endswith(".sql")]
    return [
        _parsed(file.name[:-4], file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda entry: entry.name)
    ]


def question(name: str) -> Question:
    """The question of that name.

    Raises:
        InputError: there is none.
    """
    file = resources.files(__package__).joinpath(f"{name}.sql")
    if not name.isidentifier() or not file.is_file():
        raise InputError(f"There is no question {name!r}: `kernelswarm sql --list` shows them.")
    return _parsed(name, file.read_text(encoding="utf-8"))


async def ask(
    home: Path, name: str, words: Mapping[str, str], *, bus: "Bus | None" = None, timeout: float = 60.0
) -> tuple[Question, Table]:
    """What authors ask: a question and its answer, at most :data:`ROWS` rows.

    Args:
        home: where the log lies.
        name: of the question.
        words: by parameter, texts that it contains, as in LIKE; one that the question has not is left out.
        bus: of the cluster whose recorder has the log.
        timeout: seconds.

    Raises:
        InputError: there is no such question. Others: :func:`run_sql`.
    """
    asked = question(name)
    values = asked.values({key: f"%{word}%" for key, word in words.items() if word and key in asked.parameters})
    return asked, await run_sql(home, asked.sql, params=values, bus=bus, max_rows=ROWS, timeout=timeout)


def _parsed(name: str, text: str) -> Question:
    lines = text.splitlines()
    size = next(index for index, line in enumerate(lines) if not line.startswith("--"))
    head = yaml.safe_load("\n".join(line[3:] for line in lines[:size]))
    return Question(
        name=name,
        title=head["title"],
        meaning=head["meaning"],
        columns=head["columns"],
        parameters={key: Parameter(**parameter) for key, parameter in head.get("parameters", {}).items()},
        sql="\n".join(lines[size:]) + "\n",
    )


def _typed(name: str, value: Value | None, parameter: Parameter) -> Value:
    kind: type[Value] = str if parameter.default is None else type(parameter.default)
    try:
        return kind(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise InputError(f"The parameter {name} is {value!r}, not a number: {parameter.meaning}.") from error
