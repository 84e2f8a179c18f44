"""``kernelswarm evaluate`` with several files: what cannot be used is named before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import given
from kernelswarm.cli.commands.evaluate import interrupted_text
from kernelswarm.hardware.languages.assembly import language_of
from kernelswarm.schemas import CandidateCompiled, CandidateVerified, CompileReport, Event, Verdict, VerifyReport
from kernelswarm.sessions import search

PROBLEM = Path(search.__file__).parent.parent / "problems" / "rmsnorm.py"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["fine.py", "nowhere.py"], "error: candidate file {tmp}/nowhere.py does not exist"),
        (["nowhere.py", "nowhere.py"], "error: candidate file {tmp}/nowhere.py does not exist"),
        (
            ["nowhere.py", "fine.py", "huge.py"],
            "error: candidate file {tmp}/nowhere.py does not exist; {tmp}/huge.py has 8388608 bytes; a candidate file",
        ),
        (
            ["binary.py", "nowhere.py"],
            "error: candidate file {tmp}/binary.py cannot be read as text: 'utf-8' codec can't decode byte 0xff",
        ),
    ],
)
def test_each_file_that_cannot_be_used_is_named_once(
    names: list[str], message: str, home: Path, tmp_path: Path, kernelswarm: Callable[..., Any]
) -> None:
    (tmp_path / "fine.py").write_text("def kernel(x): return x\n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.py").write_text("x" * (1 << 23))
    ran = kernelswarm("evaluate", PROBLEM, *(tmp_path / name for name in names))
    assert ran.status == 2 and ran.out == ""
    assert ran.err.startswith(message.format(tmp=tmp_path)) and ran.err.count("nowhere.py") <= 1
    assert len(ran.err.splitlines()) == 1


def test_without_a_candidate_the_grammar_refuses(home: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("evaluate", PROBLEM)
    assert ran.status == 2 and ran.out == "" and "candidate" in ran.err.lower()


COMPILED = CandidateCompiled(report=CompileReport(ok=True, language="cpp", compiler="g++ 12"))
VERIFIED = CandidateVerified(report=VerifyReport(verdict=Verdict.correct, isolation="process"))


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ((), "interrupted before anything was done; "),
        ((given.candidate(), COMPILED), "compiled: interrupted before its verification; "),
        (
            (given.candidate(), COMPILED, VERIFIED),
            "verified as correct, but not timed: interrupted before its timing, in turns with the baselines; ",
        ),
        ((given.candidate(), COMPILED, VERIFIED, given.diagnosed()), "interrupted before it was timed a second time; "),
    ],
)
def test_an_interrupt_says_how_far_the_candidate_came(events: tuple[Event, ...], says: str) -> None:
    """It said that there is no verdict, whatever the log had."""
    graph = given.graph_with(*(("n001", event) for event in events))
    assert interrupted_text(graph) == f"{says}kernelswarm show s-test1 prints what there is"


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("CPP_SOURCE = 'int f();'", "cpp"),
        ("CUDA_SOURCE = ''", "cuda"),
        ("import triton\n@triton.jit\ndef rows(x): pass", "triton"),
        ("# CUDA_SOURCE = ''; @triton.jit\n'CPP_SOURCE'\ndef kernel(x): return x", "preferred"),
        ("def kernel(:", "preferred"),
    ],
)
def test_a_file_is_in_the_language_of_its_code_not_of_its_words(source: str, language: str) -> None:
    assert language_of(source, "preferred") == language
