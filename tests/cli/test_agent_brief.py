"""The page that an agent is given: its examples are candidates as they stand, and its commands exist."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from kernelswarm.cli.commands.tasks import app
from kernelswarm.cli.mcp_server import Tools
from kernelswarm.hardware.languages.loaders import with_loader
from kernelswarm.sessions.outside.brief import agent_brief

BLOCKS = re.findall(r"```python\n(.*?)```", agent_brief(), re.S)


def block(mark: str) -> str:
    (text,) = [text for text in BLOCKS if mark in text]
    return text


def defined(source: str, monkeypatch: pytest.MonkeyPatch, cache: Path) -> dict:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    names: dict = {}
    exec(compile(with_loader(source), "example.py", "exec"), names)
    return names


def test_the_cpp_example_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = defined(block("CPP_SOURCE"), monkeypatch, tmp_path)["kernel"]
    x, w = torch.randn(7, 33), torch.randn(33)
    torch.testing.assert_close(kernel(x, w), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w)


def test_the_module_example_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = defined(block("class ModelNew"), monkeypatch, tmp_path)["ModelNew"](16)
    x = torch.randn(4, 16)
    torch.testing.assert_close(model(x), torch.relu(model.linear(x)))


@pytest.mark.parametrize("mark", ["TRITON_LAUNCHES", "CUDA_SOURCE"])
def test_examples_for_a_gpu_compile_for_one(kernelswarm: Callable, tmp_path: Path, mark: str) -> None:
    file = tmp_path / "example.py"
    file.write_text(with_loader(block(mark)))
    ran = kernelswarm("compile", str(file), "--pool", "h200", "--json")
    assert ran.status == 0, ran.err
    assert '"ok":true' in ran.out and '"rms_rows"' in ran.out
    text = kernelswarm("compile", str(file), "--pool", "h200").out
    assert "shared bytes" in text and ("static shared bytes" in text) == (mark == "CUDA_SOURCE")


@pytest.mark.parametrize("command", sorted(set(re.findall(r"kernelswarm tasks (\w+)", agent_brief()))))
def test_commands_that_it_names_exist(command: str) -> None:
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_the_tools_that_it_names_exist() -> None:
    table, _, _ = agent_brief().partition("A claim has the sources")
    cells = re.findall(r"^\|.*\| ([^|]+) \|$", table, re.M)
    tools = {name for cell in cells for name in re.findall(r"^`(\w+)`", cell)}
    assert {"compile", "history", "claim", "finish"} <= tools
    assert tools <= {function.__name__ for function in Tools(Path(), "", "").functions}
