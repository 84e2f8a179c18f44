"""The page on the log's SQL, made from the schema: ``python -m kernelswarm.store.schema_page > docs/sql.md``."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import duckdb

from .location import log_path
from .log import Log
from .question_library import Question, questions
from .session_verification import SMALL
from .typed import NAMES, SQL
from .views import VIEWS, columns, meaning

_HEAD = """# The log in SQL

All searches of a home are in one DuckDB file, the log. `kernelswarm sql` asks it in SQL, while
searches run and afterwards; `kernelswarm.sql("SELECT …")` does the same in Python.

    kernelswarm sql "SELECT session, problem, win, speedup FROM sessions ORDER BY at_ns DESC LIMIT 5"
    kernelswarm sql --list                                    # the named questions
    kernelswarm sql --question best_kernels
    kernelswarm sql --question tried_on_operator --set operator=aten.mean%
    kernelswarm sql "SELECT count(*) FROM nodes" --as-of 40   # the log as it was after event 40
    kernelswarm sql "SELECT * FROM measurements" --format csv > measurements.csv

- A query is one SELECT. It reads no files and changes no settings, and `--timeout` ends it.
- `at` is a reserved word of DuckDB's: write it with its table, as in `nodes.at`.
- `--as-of` takes an event's id, a position in the log, or a time in UTC.
- With `--nats URL` it asks the recorder of a cluster, from any host.
- The descriptions below are in the database, too:
  `SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'nodes'`.

This page is generated: `python -m kernelswarm.store.schema_page > docs/sql.md`.

## Words

| word | meaning |
| --- | --- |
| session | one search, or one evaluation of a file that you handed in |
| node | one attempt in a session: a plan, the candidate kernel that came of it, its verdict and times |
| baseline | eager PyTorch, `torch.compile` and max-autotune, timed beside each candidate |
| speedup | time of the baseline that counts (`against`) over the candidate's, by the judge: the median |
| ordinary_speedup | the same in ordinary processes: of finalists, on a processor |
| device_speedup, call_speedup | on an accelerator: speedup, and the same of a call in ordinary processes |
| win | the whole interval lies above 1 |
| fitness | the speedup; the low end of its interval if it is too noisy, 0 if the candidate is wrong |
| the judge | the harness that verifies and times candidates ([judge.md](judge.md)) |
| ordinary processes | fresh Python processes, as a user's, in which finalists are timed again |
| confirmation | the longer, second timing of a finalist; it replaces the first |
| floor | the least time that the device's memory and arithmetic allow |
| roofline fraction | floor over measured time; 1 is the device's limit |

"""
_VERIFY = f"""## What is checked

A query does not check the log's hash chain: for a million events that takes most of a minute.
`kernelswarm log verify` checks all of it. `show`, `diff`, `lineage`, `replay`, `fork` and `resume`
check the sessions that they read. In a log of at most {SMALL:,} events that no other process has
open, `sql`, `sessions`, `log stats` and `log tail` check it after they have answered: a warning on
stderr names the first bad event, and the exit status stays 0. `kernelswarm.sql` does not check.

"""
_UNDER = """## Under the views

`events` is the log itself, with one row per event. `body` is the JSON that was on the wire, and
`hash` chains the event to the one before. The other tables hold typed columns of what is asked
often. They are derived from the events alone, in the transaction that writes these, and
`kernelswarm log verify` compares both. They are faster than a view that reads bodies. The `seq` of a
row is that of its event.

"""
_QUESTIONS = """## Questions

`kernelswarm sql --question NAME [--set PARAMETER=VALUE]` asks one of these. Their SQL is in
`store/question_library/`.

"""


def page() -> str:
    """The whole page, as of this version's schema."""
    with tempfile.TemporaryDirectory() as folder, Log.open(log_path(Path(folder))) as log, log.cursor() as con:
        views = "".join(_view(con, name) for name in sorted(VIEWS))
        tables = "".join(_table(con, name) for name in ("events", *NAMES))
    rows = {name: meaning(name).removeprefix("One row per ").partition(". ")[0].rstrip(".") for name in sorted(VIEWS)}
    index = _index("view", "one row per", rows)
    asked = _index("question", "", {question.name: question.title for question in questions()})
    details = "".join(map(_question, questions()))
    return f"{_HEAD}## Views\n\n{index}{_VERIFY}{views}{_UNDER}{tables}\n{_QUESTIONS}{asked}{details}"


def _index(name: str, text: str, entries: Mapping[str, str]) -> str:
    """A table of links to sections of this page."""
    rows = "".join(f"| [{entry}](#{entry}) | {_cell(line)} |\n" for entry, line in entries.items())
    return f"| {name} | {text} |\n| --- | --- |\n{rows}\n"


def _view(con: duckdb.DuckDBPyConnection, name: str) -> str:
    meanings = columns(name)
    rows = "".join(f"| `{column}` | {kind} | {_cell(meanings[column])} |\n" for column, kind in _described(con, name))
    return f"## {name}\n\n{meaning(name)}\n\n| column | type | meaning |\n| --- | --- | --- |\n{rows}\n"


def _table(con: duckdb.DuckDBPyConnection, name: str) -> str:
    comment = SQL[name].splitlines()[0].removeprefix("-- ") if name in SQL else "The log."
    return f"- **{name}**: {comment} " + ", ".join(f"`{column}`" for column, _ in _described(con, name)) + "\n"


def _described(con: duckdb.DuckDBPyConnection, name: str) -> list[tuple[str, str]]:
    return [(row[0], _cell(row[1])) for row in con.execute(f"DESCRIBE {name}").fetchall()]


def _question(question: Question) -> str:
    answer = "".join(f"- `{name}`: {text}\n" for name, text in question.columns.items())
    given = "".join(
        f"- `--set {name}=…`: {parameter.meaning}"
        + (", needed" if parameter.default is None else f"; by default `{parameter.default}`")
        + "\n"
        for name, parameter in question.parameters.items()
    )
    return f"### {question.name}\n\n**{question.title}** {question.meaning}\n\n{answer}\n" + (
        f"{given}\n" if given else ""
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page().rstrip() + "\n")
