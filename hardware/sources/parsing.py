"""Python's parser, for one thread at a time."""

import ast
import contextlib
import threading
from typing import Literal, overload

_GUARD = threading.Lock()
_TRIES = 5


@overload
def parse(source: str, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, mode: str = "exec") -> ast.AST:
    """As :func:`ast.parse`. Python 3.11 counts the depth of all trees that are made at a time together: where several
    threads make some, one fails now and then ("AST constructor recursion depth mismatch", a SystemError). Libraries
    make some as well, and do not ask us: so such a one is made again.
    """
    with _GUARD:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(SystemError):
                return ast.parse(source, mode=mode)
        return ast.parse(source, mode=mode)
