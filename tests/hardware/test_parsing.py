"""Python 3.11's parser fails now and then where several threads parse, some of them in libraries."""

import ast

import pytest

from kernelswarm.hardware.sources.parsing import parse


def test_a_tree_that_another_thread_disturbed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [SystemError("AST constructor recursion depth mismatch (before=30, after=50)")] * 2
    right = ast.parse

    def disturbed(source: str, mode: str) -> ast.AST:
        if failures:
            raise failures.pop()
        return right(source, mode=mode)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert isinstance(parse("x = 1").body[0], ast.Assign)
    with pytest.raises(SyntaxError):
        parse("x =")
    failures += [SystemError("broken")] * 9
    with pytest.raises(SystemError, match="broken"):
        parse("x = 1")
