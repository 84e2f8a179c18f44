"""What a benchmark is to a run: a name, the choices that it offers, and its tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...schemas import InputError, Problem
from .row import Key


@dataclass(frozen=True)
class Choice:
    """Something that a benchmark lets its user choose: an option of its command, a keyword in Python."""

    name: str
    """``level`` becomes ``--level``."""
    help: str
    default: str
    values: tuple[str, ...] = ()
    """What may be chosen, for shell completion; the benchmark itself refuses what it has not."""


@dataclass(frozen=True)
class Measured:
    """The best kernel at one timed shape, from one interleaved run of the judge."""

    baselines_ms: tuple[float, ...]
    kernel_ms: float
    roofline_fraction: float | None
    """The least time that the device allows, over :attr:`kernel_ms`."""


@dataclass(frozen=True)
class Task:
    """One problem of a benchmark."""

    subset: str
    """Part of the benchmark that it belongs to: KernelBench's level, SOL-ExecBench's category."""
    number: int
    """Its place in the subset; what ``--problems 1-20`` means."""
    name: str
    """Unique in the subset."""
    load: Callable[[], Problem] = field(compare=False)
    """Read or generate the problem.

    Raises:
        ProblemError: it is none that can be searched; the sentence becomes the row's.
    """

    @property
    def key(self) -> Key:
        """As its row has it."""
        return self.subset, self.name


class Benchmark(ABC):
    """A public benchmark. An adapter is a subclass, named once in :data:`..registry.BENCHMARKS`."""

    name: str
    """As in ``kernelswarm bench NAME``, and the folder of results in the home."""
    title: str
    """As its authors write it."""
    summary: str
    """Help of the command: a first line, a blank one, more."""
    checkout: str = ""
    """What PATH has to be, for the help; empty where the benchmark needs no files of the user's."""
    choices: tuple[Choice, ...] = ()
    examples: tuple[str, ...] = ()
    """Command lines for the help."""
    score_name: str = ""
    """Name of the benchmark's own figure of merit, whose mean the report has; empty where it has none beside fast_p."""

    @abstractmethod
    def tasks(self, root: Path | None, choices: Mapping[str, str]) -> list[Task]:
        """Every task that the choices name, in the order of numbers; ``root`` is the checkout.

        Raises:
            InputError: there is no such checkout, or it has not what was chosen.
        """

    def score(self, shapes: Sequence[Measured]) -> float | None:
        """The benchmark's own figure of merit of a problem's best kernel, by timed shape; None where it has none."""
        return None

    def resolved(self, choices: Mapping[str, object]) -> dict[str, str]:
        """Every choice with its value, given or default.

        Raises:
            InputError: one is given that the benchmark does not offer.
        """
        names = [choice.name for choice in self.choices]
        for name in choices:
            if name not in names:
                offered = f"it has {', '.join(names)}" if names else "it has none of its own"
                raise InputError(f"benchmark {self.name} has no option {name!r}: {offered}")
        return {choice.name: str(choices.get(choice.name, choice.default)) for choice in self.choices}

    def label(self, choices: Mapping[str, str]) -> str:
        """What was chosen, for titles and file names: the first choice, and others that are not the default."""
        shown = [choice for choice in self.choices[1:] if choices[choice.name] != choice.default]
        return ", ".join(
            f"{choice.name} {choices[choice.name]}" for choice in (*self.choices[:1], *shown) if choices[choice.name]
        )
