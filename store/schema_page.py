"""The page on the log's SQL, made from the schema: ``python -m kernelswarm.store.schema_page > docs/sql.md``."""

import sys
import tempfile
from pathlib import Path

import duckdb

from .log import Log, log_path
from .questions import Question, questions
from .session_verification import SMALL
from .typed import NAMES, SQL
from .views import VIEWS, columns, meaning

_HEAD = """# The log in SQL

Made from the schema by `python -m kernelswarm.store.schema_page > docs/sql.md`; a test holds it to that.

`kernelswarm sql "SELECT …"` asks it in DuckDB's SQL, while searches run and after, and with `--nats URL` from any
host. From Python: `kernelswarm.sql("SELECT …")`. It can only read: one SELECT, no files, no settings, and it is
stopped after `--timeout` seconds. `--as-of EVENT|SEQ|TIME` shows the log as it was after an event
(its id), up to a position, or at a time in UTC. The same descriptions are in the database:
`SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'nodes'`.

"""
_VERIFY = f"""SQL answers from what is there. To follow the chain of hashes over a million events takes the better part
of a minute, so that is `kernelswarm log verify`; `show`, `diff`, `lineage`, `replay`, `fork` and `resume` do it for the
sessions that they read. In a log of at most {SMALL:,} events that no process has in use, `sql`, `sessions`, `log stats`
and `log tail` do it after they have answered: a warning on stderr names the first bad event, and the exit status stays
that of the answer. `kernelswarm.sql` does not.

"""
_UNDER = """## Under the views

`events` is the log itself: one row per event, with `body`, the JSON that was on the wire, and the `hash` that chains it
to the one before. Beside it stand tables with the typed columns of what is asked often, filled in the transaction that
writes the events and derived from nothing else; `kernelswarm log verify` compares them. They are quicker than the
views where a view looks into bodies. Each row has the `seq` of its event.

"""
_QUESTIONS = """## Questions

`kernelswarm sql --question NAME [--set PARAMETER=VALUE]` asks one of these; `kernelswarm sql --list` lists them; their
SQL lies in `store/questions/`.

"""


def page() -> str:
    """The whole page, as of this version's schema."""
    with tempfile.TemporaryDirectory() as folder, Log.open(log_path(Path(folder))) as log, log.cursor() as con:
        views = "".join(_view(con, name) for name in sorted(VIEWS))
        tables = "".join(_table(con, name) for name in ("events", *NAMES))
    return _HEAD + _VERIFY + views + _UNDER + tables + "\n" + _QUESTIONS + "".join(map(_question, questions()))


def _view(con: duckdb.DuckDBPyConnection, name: str) -> str:
    meanings = columns(name)
    rows = "".join(f"| `{column}` | {kind} | {_cell(meanings[column])} |\n" for column, kind in _described(con, name))
    return f"## {name}\n\n{meaning(name)}\n\n| column | type | |\n| --- | --- | --- |\n{rows}\n"


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
