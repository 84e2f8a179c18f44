"""What is found in a checkout, and what is chosen of it."""

from pathlib import Path

import pytest

from kernelswarm.bench.kernelbench import KernelBench
from kernelswarm.bench.runs import Task
from kernelswarm.bench.runs.selection import selected
from kernelswarm.schemas import InputError, ProblemError


def tasks_of(root: Path, level: int) -> list[Task]:
    return KernelBench().tasks(root, {"level": str(level)})


def test_problems_come_in_the_order_of_their_numbers(checkout: Path) -> None:
    assert [task.name for task in tasks_of(checkout, 1)] == ["1_Gate", "2_Nothing", "3_Ends", "10_No_model"]
    assert tasks_of(checkout / "KernelBench", 2) == tasks_of(checkout, 2)


@pytest.mark.parametrize(
    ("problems", "numbers"),
    [
        ("", [1, 2, 3, 10]),
        ("2-3,10", [2, 3, 10]),
        ("3", [3]),
        (" 3-99 , 1", [1, 3, 10]),
        ("*e*", [1, 3, 10]),
        ("2_nothing", [2]),
    ],
)
def test_problems_are_chosen_by_number_or_name(checkout: Path, problems: str, numbers: list[int]) -> None:
    assert [task.number for task in selected(tasks_of(checkout, 1), problems)] == numbers


@pytest.mark.parametrize(
    ("problems", "sentence"),
    [
        ("4-9", "names no problem: numbers go from 1 to 10"),
        ("1,77", "'77' names"),
        ("3-1", "backwards"),
        ("one", "names are such as 1_Gate"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused(checkout: Path, problems: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        selected(tasks_of(checkout, 1), problems)


def test_level_4_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "KernelBench" / "level4"
    folder.mkdir(parents=True)
    text = "from transformers import AutoConfig\nmodel_name = 'org/small'\nclass Model: ...\ndef get_inputs(): ...\n"
    (folder / "1_small.py").write_text(text)
    (task,) = tasks_of(tmp_path, 4)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ProblemError, match="install transformers, and download org/small"):
        task.load()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ProblemError, match="not on this machine: hf download org/small"):
        task.load()


def test_what_is_no_checkout_is_refused(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "KernelBench" / "level1").mkdir(parents=True)
    (tmp_path / "file").touch()
    for path, level, message in (
        (tmp_path / "nowhere", 1, "there is no folder"),
        (tmp_path / "file", 1, "is no folder"),
        (checkout / "KernelBench" / "level1", 1, "is no checkout"),
        (checkout, 3, "no level 3; choose one of 1, 2"),
        (tmp_path, 1, "holds no problem"),
    ):
        with pytest.raises(InputError, match=message):
            tasks_of(path, level)
