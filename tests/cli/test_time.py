"""``kernelswarm time``: what cannot be timed is refused with one sentence and the way out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.hardware.ordinary.files import carried_problem
from kernelswarm.schemas import InputError, ProblemFormat

PROBLEM = 'shapes = {"main": {}}\ndef inputs(generator): return []\ndef reference(): return 1\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "error: cannot read {file}: No such file or directory; give the best.py of a search"),
        (
            "def kernel(x): return x\n",
            "error: best.py does not carry its problem: name the problem's file with --problem",
        ),
        ("def kernel(:", "error: best.py: not valid Python: invalid syntax; give a file that kernelswarm has written"),
    ],
)
def test_bad_input(
    text: str | None, expected: str, home: Path, tmp_path: Path, kernelswarm: Callable[..., Any]
) -> None:
    file = tmp_path / "best.py"
    if text is not None:
        file.write_text(text)
    ran = kernelswarm("time", file)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.replace("\n", "") == expected.format(file=file)


def test_a_finished_file_carries_its_problem() -> None:
    text = f"KERNELSWARM_REFERENCE = {PROBLEM!r}\nSEARCHED = {{'problem': 'one'}}\n"
    problem = carried_problem(text, "best.py")
    assert (problem.name, problem.format, problem.source) == ("one", ProblemFormat.function, PROBLEM)


def test_a_literal_that_is_no_problem_is_refused() -> None:
    with pytest.raises(InputError, match=r"best\.py lacks"):
        carried_problem("KERNELSWARM_REFERENCE = 'x = 1'", "best.py")
