"""robust-kbench's layout: settings become shapes, and what the model hands to its function becomes inputs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import module_of

from kernelswarm.bench.robust_kbench import RobustKBench
from kernelswarm.bench.runs import Task
from kernelswarm.schemas import InputError, ProblemError

FUNCTION = """
import torch
import torch.nn as nn


def forward_fn(x, weight, bias=None, scale=1.0):
    return nn.functional.linear(x, weight, bias) * scale


class Model(nn.Module):
    def __init__(self, width: int, scale: float = 2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, width))
        self.scale = scale

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, scale=self.scale)


def get_inputs(batch: int = 4, width: int = 8):
    return [torch.randn(batch, width, requires_grad=True)]
"""


def config(**multi: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    single = {"input": [{"batch": 5}], "init": [{}], "shared": [{"width": 8}]}
    return {
        f"{kind}_{part}_configs": each
        for kind, parts in (("single", single), ("multi", single | multi))
        for part, each in parts.items()
    }


def write(folder: Path, direction: str = "forward", text: str = FUNCTION, **multi: list[dict[str, Any]]) -> None:
    """A task with one direction."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"func_{direction}.py").write_text(text)
    (folder / f"config_{direction}.json").write_text(json.dumps(config(**multi)))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two own tasks, one of them with a backward pass, and one of a level of KernelBench."""
    write(tmp_path / "tasks" / "linear", input=[{"batch": 5}, {"batch": 2}], shared=[{"width": 8}, {"width": 16}])
    write(tmp_path / "tasks" / "linear", "backward")
    write(tmp_path / "tasks" / "other")
    write(tmp_path / "tasks" / "kernelbench" / "level_1" / "task_12", input=[{}])
    return tmp_path


def tasks(root: Path, **choices: str) -> list[Task]:
    benchmark = RobustKBench()
    return benchmark.tasks(root, benchmark.resolved(choices))


def test_tasks_are_found_by_suite_and_direction(checkout: Path) -> None:
    assert [(task.subset, task.name) for task in tasks(checkout)] == [("own", "linear"), ("own", "other")]
    assert [(task.subset, task.name) for task in tasks(checkout, direction="backward")] == [("own backward", "linear")]
    assert [(task.number, task.name) for task in tasks(checkout, suite="level_1")] == [(12, "task_12")]
    for choices, message in (
        ({"suite": "level_2"}, "no folder tasks/kernelbench/level_2"),
        ({"suite": "level_1", "direction": "backward"}, "no task with a backward pass"),
        ({"direction": "sideways"}, "choose one of forward, backward"),
        ({"timed": "0"}, "timed '0'"),
    ):
        with pytest.raises(InputError, match=message):
            tasks(checkout, **choices)


def test_settings_are_shapes_and_the_arguments_of_the_function_are_inputs(checkout: Path) -> None:
    module = module_of(tasks(checkout)[0].load().source)
    assert [(sizes["batch"], sizes["width"]) for sizes in module.shapes.values()] == [(5, 8), (5, 16), (2, 8), (2, 16)]
    assert list(module.timed) == list(module.shapes)[:1] and not hasattr(module, "backward")
    x, weight, bias, scale = module.inputs(torch.Generator(), **module.shapes[list(module.shapes)[3]])
    assert (x.shape, weight.shape, bias, scale) == ((2, 16), (3, 16), None, 2.0)
    assert not x.requires_grad and not weight.requires_grad
    assert module.reference(x, weight, bias, scale).shape == (2, 3)


def test_a_backward_task_asks_for_both_passes(checkout: Path) -> None:
    (task,) = tasks(checkout, direction="backward")
    assert module_of(task.load().source).backward is True


def test_a_setting_that_leaves_out_defaults_is_no_other_one(checkout: Path) -> None:
    module = module_of(tasks(checkout, suite="level_1")[0].load().source)
    assert [sizes["batch"] for sizes in module.shapes.values()] == [5, 4]


@pytest.mark.parametrize(
    ("text", "message"), [("def forward_fn(x: return", "invalid syntax"), ("import torch\n", "it lacks `Model`")]
)
def test_what_is_no_task_is_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "tasks" / "odd", text=text)
    with pytest.raises(ProblemError, match=message):
        tasks(tmp_path)[0].load()
    (tmp_path / "tasks" / "odd" / "config_forward.json").unlink()
    with pytest.raises(ProblemError, match="No such file"):
        tasks(tmp_path)[0].load()
