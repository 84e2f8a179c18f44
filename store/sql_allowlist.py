"""What SQL from a user may say, read off its syntax tree before it runs: nothing but questions to the log.

The database's own configuration (:mod:`.database`) keeps it from files, extensions and settings. What that cannot do
stands here: table functions are those on a list, functions that make much of little get small constants, and a query
as of an earlier time names only what is cut off there.
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import duckdb

from ..schemas import InputError
from .typed import NAMES
from .views import VIEWS

MOST_CHARACTERS = 256 * 1024
"""Of a query."""

MOST_DEPTH = 500
"""Parentheses in each other: the parser's time grows with the square of those that are not closed."""

MOST_COPIES = 100_000
"""Characters or elements that one call may make of a constant: functions allocate beside DuckDB's memory limit."""

_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s+ANALYZE\b)?(\s*\([^)]*\))?(?P<inner>.*)", re.IGNORECASE | re.DOTALL)
_LONG_NUMBER = re.compile(r"\d{4,}|\*|\{[^}]*\{")
_HERE = frozenset(("events", "streams", "guard", "meta", *NAMES, *VIEWS))
_GENERATORS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree", "query"})
_CATALOG = frozenset(
    {"duckdb_columns", "duckdb_views", "duckdb_tables", "duckdb_functions", "duckdb_types", "pragma_table_info"}
)
_COUNTED = frozenset({"repeat", "lpad", "rpad", "range", "generate_series", "list_resize", "array_resize", "bitstring"})
_FORMATTING = frozenset({"printf", "format"})
_REFUSED = frozenset({"current_setting", "getenv", "write_log"})
_REPLACING = {"replace": 2, "regexp_replace": 2}

Node = dict[str, Any]


def check_text(sql: str) -> None:
    """Refuse what would keep the parser busy, which nothing interrupts.

    Raises:
        InputError: it is too long, or opens too many parentheses: unclosed, each costs it as much as all before.
    """
    if len(sql) > MOST_CHARACTERS:
        raise InputError(
            f"The query has {len(sql):,} characters, more than the {MOST_CHARACTERS:,} that are read: shorten it."
        )
    if sql.count("(") > MOST_DEPTH and _depth(sql) > MOST_DEPTH:
        raise InputError(f"The query opens more than {MOST_DEPTH:,} parentheses in each other: shorten it.")


def _depth(sql: str) -> int:
    """Parentheses that are open at once, at most. Those in texts count as well: no query of a person has so many."""
    return max(accumulate((character == "(") - (character == ")") for character in sql))


def check(con: duckdb.DuckDBPyConnection, sql: str, *, as_of: bool) -> None:
    """Refuse ``sql``, one SELECT or EXPLAIN, if it asks for anything but the log.

    Raises:
        InputError: it does; says for what.
    """
    tree = _tree(con, sql)
    nodes = list(_nodes(tree))
    named = {entry["key"].lower() for node in nodes for entry in _entries(node)}
    for node in nodes:
        _check_kind(node)
        if node.get("type") == "TABLE_FUNCTION":
            _check_table_function(con, node["function"], as_of=as_of)
        elif node.get("class") == "FUNCTION":
            _check_function(node)
        if as_of:
            _check_name(node, named)


def _tree(con: duckdb.DuckDBPyConnection, sql: str) -> Any:
    explained = _EXPLAIN.fullmatch(sql)
    text = explained["inner"] if explained else sql
    row = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    tree = json.loads(row[0]) if row else {}
    if tree.get("error", True):
        raise InputError(f"The log can only be read, with one plain SELECT: {tree.get('error_message', 'it is empty')}")
    # A table function is a call as well; seen from there it is checked as one.
    return tree


def _nodes(tree: Any) -> Iterator[Node]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            yield node
            table_function = node.get("type") == "TABLE_FUNCTION"
            # The call of a table function is checked with it; its arguments like any other.
            waiting.extend(
                value["arguments"] if table_function and key == "function" else value for key, value in node.items()
            )


def _entries(node: Node) -> list[Node]:
    ctes = node.get("cte_map")
    return ctes["map"] if isinstance(ctes, dict) else []


def _check_kind(node: Node) -> None:
    kind = str(node.get("type", ""))
    if kind.endswith("_QUERY_NODE"):
        raise InputError(f"The log can only be read: {kind.partition('_')[0]} is not allowed, write a SELECT.")


def _check_table_function(con: duckdb.DuckDBPyConnection, call: Node, *, as_of: bool) -> None:
    name = call["function_name"].lower()
    if name not in _GENERATORS and (as_of or name not in _CATALOG):
        raise InputError(f"The query was refused. The log does not need the table function {name}: ask its views.")
    if name == "query":
        (text,) = _constants(call) or (None,)
        if not isinstance(text, str):
            raise InputError("The query was refused. query() takes one constant text here.")
        check(con, text, as_of=as_of)


def _check_function(call: Node) -> None:
    name = call["function_name"].lower()
    given = _arguments(call)
    if name in _REFUSED:
        raise InputError(f"The query was refused. {name}() is about this machine, not about the log.")
    if name in _COUNTED and not _small(given):
        raise InputError(
            f"The query was refused. {name}() takes only constants here, for at most {MOST_COPIES:,} elements."
        )
    if name in _FORMATTING and (not given or not isinstance(given[0], str) or _LONG_NUMBER.search(given[0])):
        raise InputError(f"The query was refused. {name}() takes a constant format with small widths here.")
    place = _REPLACING.get(name)
    if place is not None and len(given) > place and not (isinstance(given[place], str) and len(given[place]) <= 100):
        raise InputError(f"The query was refused. {name}() takes a short constant as replacement here.")


def _check_name(node: Node, named: set[str]) -> None:
    """A query as of an earlier time may name what is cut off there, and nothing by a longer name."""
    path = (node.get("qualified_name") or {}).get("path", ())
    if node.get("type") not in ("BASE_TABLE", "SHOW_REF") or not (node.get("table_name") or path):
        return
    name = str(node["table_name"]).lower()
    if len(path) > 1 or node.get("schema_name") or node.get("catalog_name") or name not in _HERE | named:
        raise InputError(
            f"The query was refused. As of an earlier time there is no table {'.'.join(path) or name!r}: "
            "ask events and the views, by their plain names."
        )


def _small(given: list[Any]) -> bool:
    if not all(isinstance(value, int | float | str) for value in given):
        return False
    copies = max((value for value in given if isinstance(value, int | float)), default=0)
    longest = max((len(value) for value in given if isinstance(value, str)), default=1)
    return copies * max(1, longest) <= MOST_COPIES


def _constants(call: Node) -> list[Any] | None:
    given = _arguments(call)
    return given if all(isinstance(value, int | float | str) for value in given) else None


def _arguments(call: Node) -> list[Any]:
    """Constants as what they are, everything else as None."""
    return [_constant(argument.get("expression", argument)) for argument in call.get("arguments", ())]


def _constant(node: Node) -> Any:
    literal = node.get("literal") if node.get("class") == "CONSTANT" else None
    if not isinstance(literal, dict):
        return None
    text = literal.get("text")
    if literal.get("kind") in ("INTEGER", "DECIMAL", "FLOAT", "NUMERIC", "NUMBER"):
        return float(text) if text is not None else None
    return text
