"""Finds a candidate's native code without running the candidate."""

import ast
import re
from dataclasses import dataclass

from ...schemas import Diagnostic
from .parsing import parse

MOST_FLAGS_CHARACTERS = 4096
"""All flags together: the system refuses command lines that are too long, and that would look like its fault."""

CANDIDATE = "KERNELSWARM_CANDIDATE"
"""Literal of a finished file (``best.py``) that holds the candidate that it was made of."""


def candidate_in(source: str) -> str:
    """The candidate that the finished file ``source`` carries; ``source`` itself, if it is a candidate.

    A finished file executes that text as it is, so what is compiled ahead is what its loader looks for.
    """
    if CANDIDATE not in source:
        return source
    try:
        text = module_literal(parsed(source), CANDIDATE)
    except Refused:
        return source
    return text if isinstance(text, str) else source


PARTS = "KERNELSWARM_PARTS"
"""Literal of a candidate that dispatches on shapes: the candidates that it is made of, by name."""


def parts_of(source: str) -> dict[str, str]:
    """The candidates that the dispatching candidate ``source`` is made of; none of any other."""
    if PARTS not in source:
        return {}
    try:
        parts = module_literal(parsed(source), PARTS)
    except Refused:
        return {}
    is_table = isinstance(parts, dict) and all(isinstance(item, str) for pair in parts.items() for item in pair)
    return dict(parts) if is_table and isinstance(parts, dict) else {}


@dataclass(frozen=True)
class NativeSource:
    """Native code of a candidate, as its literals say."""

    text: str
    flags: tuple[str, ...]


class Refused(Exception):
    """The candidate cannot be compiled; ``diagnostic`` says why."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(severity="error", message=message, line=line, column=column)


def native_source(source: str, prefix: str) -> NativeSource | None:
    """``<prefix>_SOURCE`` and ``<prefix>_FLAGS`` of the candidate file ``source``; None if it has no native code.

    Raises:
        Refused: it is not Python, or the two are not literals assigned once at module level.
    """
    tree = parsed(source)
    text = module_literal(tree, f"{prefix}_SOURCE")
    flags = module_literal(tree, f"{prefix}_FLAGS")
    if text is None:
        return None
    if not isinstance(text, str):
        raise Refused(f"{prefix}_SOURCE must be one string literal, not {type(text).__name__}")
    flags = [] if flags is None else flags
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise Refused(f"{prefix}_FLAGS must be a list of string literals")
    return NativeSource(text, tuple(flags))


def check_flags(flags: tuple[str, ...], allowed: re.Pattern[str], reasons: dict[str, str]) -> None:
    """Hold ``flags`` against an allow-list.

    Raises:
        Refused: one is not on it; ``reasons`` has a better sentence for some.
    """
    if (length := sum(map(len, flags)) + len(flags)) > MOST_FLAGS_CHARACTERS:
        raise Refused(f"the flags have {length} characters; more than {MOST_FLAGS_CHARACTERS} are refused")
    for flag in flags:
        if flag in reasons:
            raise Refused(f"the flag {flag!r} is refused: {reasons[flag]}")
        if not allowed.fullmatch(flag):
            raise Refused(f"the flag {flag!r} is refused: only optimisation, target, -D, -std and warning flags pass")


def parsed(source: str) -> ast.Module:
    """``source`` as a tree.

    Raises:
        Refused: it is not Python.
    """
    try:
        return parse(source)
    except SyntaxError as error:
        raise Refused(f"not valid Python: {error.msg}", error.lineno or 0, error.offset or 0) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"not valid Python: {error or type(error).__name__}") from error


def module_literal(tree: ast.Module, name: str) -> object:
    """Value of the only assignment to ``name``; None if there is none.

    Raises:
        Refused: it is not a literal, or not assigned once at module level.
    """
    places = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    stored = [node for node in places if isinstance(node.ctx, ast.Store)]
    if not stored:
        return None
    # A second assignment would make the file compile something else on its own than what is compiled here.
    if len(stored) > 1:
        raise Refused(f"{name} is assigned {len(stored)} times; assign it once", stored[1].lineno)
    for statement in tree.body:
        target, value = _assignment(statement)
        if target is stored[0] and value is not None:
            try:
                return ast.literal_eval(value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                raise Refused(f"{name} must be a literal: it is read without running the file", value.lineno) from None
    raise Refused(f"{name} must be assigned at module level, alone on the left-hand side", stored[0].lineno)


def _assignment(statement: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0], statement.value
    if isinstance(statement, ast.AnnAssign):
        return statement.target, statement.value
    return None, None
