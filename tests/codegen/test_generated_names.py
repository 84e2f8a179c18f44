"""Generated files read no name that nobody defines: calls on a GPU, and of large tensors, run in no other test here."""

import builtins
import symtable
from collections.abc import Iterator

import graphs
import pytest

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.cpp.kept_memory import is_mapped

MADE = {
    "softmax": graphs.softmax,
    "matmul_relu": graphs.matmul_relu,
    "mean_then_columns": graphs.mean_then_columns,
    "dense": lambda: graphs.dense(4),
}


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def undefined(source: str) -> set[str]:
    """Names that some scope of a module reads, and neither the module nor Python defines."""
    module = symtable.symtable(source, "candidate", "exec")
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    defined |= {child.get_name() for child in module.get_children()}
    read = {
        symbol.get_name()
        for table in _tables(module)
        for symbol in table.get_symbols()
        if (symbol.is_referenced() and symbol.is_global()) or (table is module and symbol.is_referenced())
    }
    return read - defined - set(dir(builtins)) - {"__file__", "__name__"}


def test_a_name_without_a_definition_is_seen() -> None:
    assert undefined("import math\ndef f(x):\n    return g(x) + math.pi + len(x)\n") == {"g"}
    assert (
        undefined("def f(x):\n    y = x\n    return [y for y in x]\nclass A:\n    def h(self): return f(A)\n") == set()
    )


@pytest.mark.parametrize("language", CODEGEN_BACKENDS)
@pytest.mark.parametrize("name", MADE)
def test_every_name_is_defined(language: str, name: str) -> None:
    graph, backend = MADE[name](), CODEGEN_BACKENDS[language]
    tunables = backend.tunables(graph, graphs.HARDWARE)
    assert tunables is not None
    configs = [{}, *({tunable: value} for tunable in backend.drafts for value in tunables.get(tunable, ()))]
    sources = [backend.source(graphs.facts(graph), graph, config, graphs.HARDWARE) for config in configs]
    assert [undefined(source) for source in sources] == [set()] * len(sources)


def test_one_of_the_graphs_has_large_outputs() -> None:
    assert any(is_mapped(meta) for make in MADE.values() for node in make().nodes for meta in node.values)
