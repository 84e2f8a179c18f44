"""A name that is nearly right is answered with the right one."""

from pathlib import Path

import pytest

from kernelswarm.agents.synthesizer.authors import parse_authors
from kernelswarm.hardware.sources.problem_files import load_candidate, load_problem, missing_entry
from kernelswarm.schemas import InputError
from kernelswarm.sessions.search_options import SearchOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("kernel.py", "best.py", "my_operator.py"):
        (tmp_path / name).touch()
    return tmp_path


def test_of_a_file_that_is_not_there_its_neighbour_is_named(folder: Path) -> None:
    for wrong, right in (("my_operater.py", "my_operator.py"), ("my_operator", "my_operator.py")):
        with pytest.raises(InputError, match=f"did you mean '{folder / right}'"):
            load_problem(folder / wrong)
    with pytest.raises(InputError, match=f"did you mean '{folder / 'kernel.py'}'"):
        load_candidate(folder / "kernal.py")
    with pytest.raises(InputError, match=r"problems/mapid\.py'"):
        load_problem(folder / "mapid")
    with pytest.raises(InputError, match="check the path"):
        load_problem(folder / "nothing_like_it.py")


@pytest.mark.parametrize(
    ("text", "right"), [("anthropc", "anthropic"), ("generater:2,outside", "generator"), ("outsid", "outside")]
)
def test_authors(text: str, right: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{right}'"):
        parse_authors(text)


def test_roles_of_models() -> None:
    with pytest.raises(InputError, match=r"did you mean 'analyst'\? write AUTHOR=NAME"):
        parse_authors("generator", "analist=NAME")


@pytest.mark.parametrize(
    ("option", "wrong", "right"),
    [("against", "egaer", "eager"), ("against", "torch.compile", "compile"), ("measure", "devise", "device")],
)
def test_options(option: str, wrong: str, right: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{right}'"):
        SearchOptions(**{option: wrong}).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def kernal(x):\n    return x\n", "neither `kernel` nor `ModelNew` (is `kernal` meant to be `kernel`?)"),
        ("class NewModel:\n    pass\n", "neither `kernel` nor `ModelNew` (is `NewModel` meant to be `ModelNew`?)"),
        ("def f(x):\n    return x\n", "it defines neither `kernel` nor `ModelNew`"),
    ],
)
def test_the_entry_of_a_candidate(source: str, says: str) -> None:
    assert missing_entry(source).endswith(says)


@pytest.mark.parametrize("source", ["kernel = print\n", "class ModelNew:\n    pass\n", "def kernel(:\n"])
def test_of_a_candidate_that_has_one_or_is_no_python_nothing_is_said(source: str) -> None:
    assert missing_entry(source) == ""
