"""Python's parser, for one thread at a time."""

import ast
import threading
from typing import Literal, overload

_GUARD = threading.Lock()


@overload
def parse(source: str, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, mode: str = "exec") -> ast.AST:
    """As :func:`ast.parse`. Python 3.11 counts the depth of all trees that are made at a time together: where several
    threads make some, one fails now and then ("AST constructor recursion depth mismatch", a SystemError).
    """
    with _GUARD:
        return ast.parse(source, mode=mode)
