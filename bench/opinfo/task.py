"""What a child process is given, and says. Imported by both sides: no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from .row import Outcome, Row

LISTS = ("modules", "ops")
LANGUAGES = ("cpp", "triton")
DTYPES = ("float32", "bfloat16", "float16", "float64", "complex64", "int64", "bool")


@dataclass(frozen=True)
class Task:
    """One name of a list in one dtype."""

    list: str
    name: str
    dtype: str
    languages: tuple[str, ...]
    samples: int
    """How many of its samples; 0: all."""
    cache: str
    """Folder where compiled drafts are kept."""
    versions: str

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name} {self.dtype}"


def rows_of(task: Task, number: int, outcome: Outcome, cause: str, languages: Sequence[str] = ()) -> list[Row]:
    """Rows that say the same of a sample in every language; -1 for a sample where there is none."""
    return [
        Row(
            list=task.list,
            name=task.name,
            sample=number,
            dtype=task.dtype,
            language=language,
            captured=outcome,
            cause=cause,
            versions=task.versions,
        )
        for language in languages or task.languages
    ]
