"""Imports point one way, and the supervisor's side never imports torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kernelswarm

ROOT = Path(kernelswarm.__file__).parent
ALLOWED = {
    "schemas": set(),
    "bus": {"schemas"},
    "store": {"schemas", "bus"},
    "hardware": {"schemas"},
    "knowledge": {"schemas"},
    "problems": {"schemas"},
    "agents": {"schemas", "bus", "store", "hardware", "knowledge", "problems"},
    "api": {"schemas", "bus", "store", "hardware", "knowledge", "problems", "agents", "asking"},
    "cli": {"schemas", "bus", "store", "hardware", "knowledge", "problems", "agents", "faults", "kernelbench"},
    "faults": {"schemas", "bus", "store", "hardware", "agents"},
    "kernelbench": {"schemas", "bus", "store", "hardware", "agents"},
}
ROLES = ("planner", "synthesizer", "analyst", "compiler", "verifier", "profiler", "distiller")


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Dotted names under kernelswarm that a file imports, relative ones resolved."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {".".join([*base, name]) for name in names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelswarm."):
            found.add((node.module or "").removeprefix("kernelswarm."))
    return found


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_what_stands_below_it(folder: str) -> None:
    files = modules(folder)
    assert files
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imported(path)
        if (top := name.split(".")[0]) in ALLOWED and top != folder and top not in ALLOWED[folder]
    ]
    assert not wrong


@pytest.mark.parametrize("role", ROLES)
def test_no_agent_imports_another(role: str) -> None:
    own = [path for path in modules("agents") if role in path.relative_to(ROOT / "agents").with_suffix("").parts]
    assert own
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in own
        for name in imported(path)
        for other in ROLES
        if other != role and name.startswith(f"agents.{other}")
    ]
    assert not wrong


def test_only_bus_knows_nats_and_only_store_knows_duckdb() -> None:
    owners = {"nats": "bus", "duckdb": "store"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {top}"
        for folder in ALLOWED
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        for top in tops(node)
        if top in owners and owners[top] != folder
    ]
    assert not wrong


def tops(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [(node.module or "").split(".")[0]]
    return []


def test_the_command_line_starts_without_torch_or_a_model_library() -> None:
    code = (
        "import sys, kernelswarm.cli.main; "
        "print([n for n in ('torch', 'triton', 'anthropic', 'autogen_core', 'autogen_agentchat') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
