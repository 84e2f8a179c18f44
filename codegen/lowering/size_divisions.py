"""Divisions by sizes and by numeric inputs in a graph: checks for zero, and for quotients that round differently."""

import ast
import re
from functools import lru_cache

from ...hardware.sources.parsing import parse
from ...schemas import Expr, Graph
from .views import expressions

_SYMBOL = re.compile(r"[a-z]+\d+")


def unfit_divisions(graph: Graph) -> list[str]:
    """Conditions under which the graph must not run: each is a comparison of what is computed of its symbols."""
    return [*(f"{divisor} == 0" for divisor in _true_divisors(graph)), *_whole_divisions(graph)]


def _true_divisors(graph: Graph) -> list[str]:
    """What the sizes are divided by, but for sizes: nothing of it may be zero. A variance of one value is an example,
    which batch normalization refuses with a sentence of its own."""
    divisors = [node.args[1] for node in graph.nodes if node.op == "size" and node.target == "operator.truediv"]
    texts = dict.fromkeys(f"({divisor.value})" for divisor in divisors if isinstance(divisor, Expr))
    return [text for text in texts if {*(names := _SYMBOL.findall(text))} <= {*graph.symbols} and names != [text[1:-1]]]


def _whole_divisions(graph: Graph) -> list[str]:
    """Where whole numbers are divided: a divisor below 1, or a number below 0. Kernels would have another quotient, or
    end the process. Sizes are never so small; inputs that are numbers, and what is computed of both, may be."""
    shapes = (size for node in graph.nodes for meta in node.values for size in meta.shape if isinstance(size, str))
    arguments = (text for node in graph.nodes for text in expressions((*node.args, *node.kwargs.values())))
    texts = [text for text in dict.fromkeys([*shapes, *arguments]) if "//" in text or "%" in text]
    given = {name for name, source in graph.symbols.items() if source.dim < 0 and not source.expr}
    divided = dict.fromkeys(name for text in texts for name in _SYMBOL.findall(text) if name in given)
    divisors = dict.fromkeys(divisor for text in texts for divisor in _divisors_in(text))
    known = [text for text in divisors if {*_SYMBOL.findall(text)} <= {*graph.symbols}]
    computed = [text for text in known if text not in graph.symbols or text in given]
    return [*(f"{name} < 0" for name in divided), *(f"({text}) <= 0" for text in computed)]


@lru_cache(maxsize=4096)
def _divisors_in(text: str) -> tuple[str, ...]:
    """What divides whole numbers in ``text``, but for numbers."""
    quotients = (tree for tree in ast.walk(parse(text, mode="eval")) if isinstance(tree, ast.BinOp))
    parts = (ast.unparse(tree.right) for tree in quotients if isinstance(tree.op, ast.FloorDiv | ast.Mod))
    return tuple(part for part in parts if _SYMBOL.search(part))
