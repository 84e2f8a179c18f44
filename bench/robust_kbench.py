"""robust-kbench (Lange et al., 2025): operators with several settings each, forward and backward."""

import ast
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..hardware.sources.parsing import parse
from ..hardware.sources.problem_files import load_candidate
from ..schemas import InputError, Problem, ProblemError, ProblemFormat, sha256
from .runs import Benchmark, Choice, Task

SOURCE = "https://github.com/SakanaAI/robust-kbench"

OWN = "own"
SUITES = {OWN: "tasks", "level_1": "tasks/kernelbench/level_1", "level_2": "tasks/kernelbench/level_2"}
DIRECTIONS = ("forward", "backward")

MOST_TIMED = 8

INPUTS = '''
def inputs(generator, **sizes):
    """What the model hands to its function: the arguments of forward(), the weights, the numbers."""
    model = Model(**{{name: sizes[name] for name in {model}}})
    drawn = get_inputs(**{{name: sizes[name] for name in {drawn}}})
    call = model(*drawn, fn=inspect.signature(forward_fn).bind)
    call.apply_defaults()
    return [_plain(value) for value in call.args]


def _plain(value):
    if isinstance(value, torch.Tensor):
        return value.detach()
    return [_plain(item) for item in value] if isinstance(value, list | tuple | torch.nn.ParameterList) else value
'''


class RobustKBench(Benchmark):
    """Folders with a function, the model that calls it, and the settings that it is run at."""

    name = "robust-kbench"
    title = "robust-kbench"
    summary = "Run robust-kbench: operators checked at several settings, forward or forward and backward."
    checkout = "Root of a checkout of robust-kbench (it has tasks/)."
    choices = (
        Choice("suite", "Its own tasks, or its version of a level of KernelBench.", OWN, tuple(SUITES)),
        Choice(
            "direction", "forward, or backward: both passes as one step, for tasks that have it.", "forward", DIRECTIONS
        ),
        Choice("timed", "Settings of a task to time, beginning with its single one; every one is checked.", "1"),
    )
    examples = (
        f"git clone {SOURCE}",
        "kernelswarm bench robust-kbench robust-kbench --pool h200 --budget 4",
        "kernelswarm bench robust-kbench robust-kbench --direction backward --problems '*linear*,layernorm'",
        "kernelswarm bench robust-kbench robust-kbench --suite level_1 --problems 1-20 --out level1.csv",
    )

    def tasks(self, root: Path | None, choices: Mapping[str, str]) -> list[Task]:
        """The tasks of a suite that have the direction."""
        assert root is not None
        suite, direction, timed = choices["suite"], choices["direction"], choices["timed"]
        for name, value, offered in (("suite", suite, tuple(SUITES)), ("direction", direction, DIRECTIONS)):
            if value not in offered:
                raise InputError(f"{name} {value!r}: choose one of {', '.join(offered)}")
        if not timed.isdigit() or not 1 <= int(timed) <= MOST_TIMED:
            raise InputError(f"timed {timed!r}: give a number of settings from 1 to {MOST_TIMED}")
        folder = root / SUITES[suite]
        if not folder.is_dir():
            raise InputError(f"{root} has no folder {SUITES[suite]}; give the root of a checkout: git clone {SOURCE}")
        folders = sorted(path for path in folder.iterdir() if (path / f"func_{direction}.py").is_file())
        if not folders:
            raise InputError(f"{folder} has no task with a {direction} pass (func_{direction}.py in its folder)")
        subset = suite if direction == "forward" else f"{suite} backward"
        tasks = [
            Task(subset, _number(path.name, index), path.name, partial(load, path, direction, int(timed)))
            for index, path in enumerate(folders, 1)
        ]
        return sorted(tasks, key=lambda task: task.number)


def _number(name: str, index: int) -> int:
    match = re.fullmatch(r"task_(\d+)", name)
    return int(match[1]) if match else index


def load(folder: Path, direction: str, timed: int) -> Problem:
    """The task in ``folder`` as a function file: a shape for each of its settings.

    Raises:
        ProblemError: its files cannot be read, or lack something.
    """
    try:
        text = load_candidate(folder / f"func_{direction}.py")
        config = json.loads((folder / f"config_{direction}.json").read_text(encoding="utf-8"))
        tree = parse(text)
        settings = _settings(config, tree)
    except (OSError, InputError, SyntaxError, ValueError, TypeError, KeyError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ProblemError(f"{folder.name} is no task with a {direction} pass that can be read: {reason!s}") from error
    source = _source(folder.name, text, settings, backward=direction == "backward", timed=timed)
    return Problem(name=folder.name.lower(), format=ProblemFormat.function, source=source, sha256=sha256(source))


@dataclass(frozen=True)
class _Settings:
    """Keyword arguments of ``Model`` and ``get_inputs`` as one dictionary a setting, the single settings first."""

    each: tuple[dict[str, Any], ...]
    model: tuple[str, ...]
    """Names that ``Model`` takes."""
    drawn: tuple[str, ...]
    """Names that ``get_inputs`` takes."""


def _settings(config: Mapping[str, Sequence[Mapping[str, Any]]], tree: ast.Module) -> _Settings:
    model, drawn = _defaults(tree, "Model"), _defaults(tree, "get_inputs")
    each: list[dict[str, Any]] = []
    names: tuple[set[str], set[str]] = (set(model), set(drawn))
    for kind in ("single", "multi"):
        parts = (config[f"{kind}_{part}_configs"] for part in ("init", "input", "shared"))
        for init, given, shared in itertools.product(*parts):
            names[0].update(init, shared)
            names[1].update(given, shared)
            setting = {**model, **drawn, **init, **given, **shared}
            if setting not in each:
                each.append(setting)
    if not each:
        raise ValueError("its configuration has no setting")
    return _Settings(tuple(each), *(tuple(sorted(part)) for part in names))


def _defaults(tree: ast.Module, name: str) -> dict[str, Any]:
    """Defaults of a function's parameters, of a class its constructor's, as far as they are literals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _defaults(ast.Module(body=node.body, type_ignores=[]), "__init__")
        if isinstance(node, ast.FunctionDef) and node.name == name:
            parameters = [*node.args.posonlyargs, *node.args.args]
            defaults = zip(parameters[len(parameters) - len(node.args.defaults) :], node.args.defaults, strict=True)
            return {parameter.arg: ast.literal_eval(value) for parameter, value in defaults if _is_literal(value)}
    raise ValueError(f"it lacks `{name}`")


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _source(name: str, text: str, settings: _Settings, *, backward: bool, timed: int) -> str:
    named = {" ".join(f"{key}={value}" for key, value in each.items()) or "main": each for each in settings.each}
    parts = [
        f"# {name} of robust-kbench{', forward and backward' if backward else ''}",
        f"import inspect\n\nimport torch\n\n{text.strip()}",
        _dictionary("shapes", {key: repr(each) for key, each in named.items()}),
        _dictionary("timed", dict.fromkeys(list(named)[:timed], "1")),
        *(["backward = True"] if backward else []),
        INPUTS.format(model=settings.model, drawn=settings.drawn).strip(),
        "reference = forward_fn",
    ]
    return "\n\n\n".join(parts) + "\n"


def _dictionary(name: str, items: Mapping[str, str]) -> str:
    lines = "".join(f"    {key!r}: {text},\n" for key, text in items.items())
    return f"{name} = {{\n{lines}}}"
