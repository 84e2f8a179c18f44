"""A run as a whole: shares of what is right, misses by cause, and both as Markdown."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ...schemas import Schema
from .row import RIGHT, UNCOUNTED, Outcome, Row

MOST_NAMES = 5
_NUMBERS = re.compile(r"\d[\d.e+-]*")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\([^()]*\)|\[[^\]]*\]")


class Share(Schema, frozen=True, kw_only=True):
    """How many drafts are right."""

    list: str
    dtype: str
    language: str
    sizes: str
    """``captured`` or ``other``."""
    samples: int
    """Counted: without those that no answer is right for, and those without other sizes."""
    right: int
    """Of them: nothing is to be mended."""
    generated: int
    """Of these: with kernels of their own; the others leave every operator to PyTorch."""
    drafts: int
    """Of ``samples``: those that have a draft. What is no draft is no wrong one."""

    @property
    def of_samples(self) -> float:
        """Share of the samples that have a right draft."""
        return self.right / self.samples if self.samples else 1.0

    @property
    def of_drafts(self) -> float:
        """Share of the drafts that are right."""
        return self.right / self.drafts if self.drafts else 1.0


class Cause(Schema, frozen=True, kw_only=True):
    """Misses of one cause."""

    outcome: Outcome
    cause: str
    """A sentence, what differs among its samples left out."""
    rows: int
    names: tuple[str, ...]
    """Distinct operators and modules."""


class Report(Schema, frozen=True, kw_only=True):
    """What ``kernelswarm bench opinfo --json`` prints."""

    chosen: int
    """Names times dtypes."""
    done: int
    shares: tuple[Share, ...]
    misses: tuple[Cause, ...]
    """The most frequent first."""
    excluded: tuple[Cause, ...]
    """Samples that no answer is right for."""
    seconds: float
    """Of all samples together, one after the other."""
    versions: tuple[str, ...]
    path: str
    """The CSV file."""


def report_on(rows: Sequence[Row], *, chosen: int, done: int, path: str) -> Report:
    """The report on ``rows``."""
    missed = [row for row in rows if row.captured is not Outcome.excluded and not row.is_right]
    return Report(
        chosen=chosen,
        done=done,
        shares=tuple(_shares(rows)),
        misses=tuple(_causes(missed)),
        excluded=tuple(_causes(row for row in rows if row.captured is Outcome.excluded)),
        seconds=round(sum(row.seconds for row in rows), 1),
        versions=tuple(sorted({row.versions for row in rows})),
        path=path,
    )


def _shares(rows: Sequence[Row]) -> Iterable[Share]:
    groups = sorted({(row.list, row.dtype, row.language) for row in rows})
    for group in groups:
        own = [row for row in rows if (row.list, row.dtype, row.language) == group]
        for sizes in ("captured", "other"):
            outcomes: list[Outcome] = [getattr(row, sizes) for row in own if row.captured is not Outcome.excluded]
            counted = [outcome for outcome in outcomes if outcome not in UNCOUNTED]
            right = [outcome for outcome in counted if outcome in RIGHT]
            yield Share(
                list=group[0],
                dtype=group[1],
                language=group[2],
                sizes=sizes,
                samples=len(counted),
                right=len(right),
                generated=sum(outcome is not Outcome.left for outcome in right),
                drafts=sum(outcome is not Outcome.not_drafted for outcome in counted),
            )


def _causes(rows: Iterable[Row]) -> list[Cause]:
    counts: Counter[tuple[Outcome, str]] = Counter()
    names: dict[tuple[Outcome, str], dict[str, None]] = {}
    for row in rows:
        outcome = row.other if row.captured in RIGHT else row.captured
        key = outcome, cause_of(row)
        counts[key] += 1
        names.setdefault(key, {})[row.name] = None
    return [
        Cause(outcome=outcome, cause=cause, rows=count, names=tuple(names[outcome, cause]))
        for (outcome, cause), count in counts.most_common()
    ]


def cause_of(row: Row) -> str:
    """The row's cause without what differs among samples: numbers, names, places."""
    return _NUMBERS.sub("N", _QUOTED.sub("…", row.cause)).strip()


def markdown(report: Report) -> str:
    """The report as a page: shares, then misses by cause, then what was left out."""
    lines = ["| list | dtype | language | sizes | samples | right | generated | of samples | of drafts |"]
    lines.append("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for share in report.shares:
        counts = f"{share.samples} | {share.right} | {share.generated}"
        shares = f"{share.of_samples:.1%} | {share.of_drafts:.1%}"
        lines.append(f"| {share.list} | {share.dtype} | {share.language} | {share.sizes} | {counts} | {shares} |")
    for title, causes in (("Misses", report.misses), ("Left out", report.excluded)):
        lines += ["", f"## {title}", "", "| rows | outcome | cause | names |", "| ---: | --- | --- | --- |"]
        lines += [
            f"| {cause.rows} | {cause.outcome} | {_cell(cause.cause)} | {_cell(named(cause))} |" for cause in causes
        ]
    return "\n".join(lines) + "\n"


def named(cause: Cause) -> str:
    """The names of a cause, the first few of many."""
    more = len(cause.names) - MOST_NAMES
    return ", ".join(cause.names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
