"""Imports point one way, and the supervisor's side never imports torch."""

import ast
import functools
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kernelswarm

ROOT = Path(kernelswarm.__file__).parent
BELOW = {
    "schemas": set(),
    "bus": {"schemas"},
    "store": {"schemas", "bus"},
    "hardware": {"schemas"},
    "knowledge": {"schemas"},
    "problems": {"schemas"},
    "graph": {"schemas"},
    "codegen": {"schemas", "hardware"},
}
AGENTS = {*BELOW, "agents"}
ALLOWED = {
    **BELOW,
    "agents": set(BELOW),
    "sessions": AGENTS,
    "bench": {*AGENTS, "sessions"},
    "api": {*AGENTS, "sessions", "bench"},
    "cli": {*AGENTS, "sessions", "bench"},
}
"""What each folder may import."""
ORDER = {
    "bench": ("runs", ""),
    "codegen": ("ir", "lowering", "host", "cpp", "triton", ""),
    "cli": ("display", "", "commands"),
    "hardware": (
        "processes",
        "machine",
        "sources",
        "capture",
        "dropin",
        "languages",
        "platforms",
        "pools",
        "profilers",
        "harness",
        "ordinary",
        "",
    ),
    "hardware/harness": (
        "messages",
        "inputs",
        "tensors",
        "calls",
        "reference",
        "children",
        "judgement",
        "timing",
        "",
    ),
    "agents": ("ancestors", "assembly", "runtime", "cut_off", "consulting", "analyst", "planner", "synthesizer", ""),
}
"""Folders (or files) inside a folder, each of which imports only from those before it; an empty name: its own files."""
ROLES = (
    "planner",
    "synthesizer",
    "dispatcher",
    "analyst",
    "compiler",
    "verifier",
    "profiler",
    "checker",
    "distiller",
)


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names under kernelswarm that a file imports, relative ones resolved."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    dotted_names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            dotted_names |= {".".join([*base, name]) for name in names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelswarm."):
            dotted_names.add((node.module or "").removeprefix("kernelswarm."))
    return frozenset(dotted_names)


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


@pytest.mark.parametrize("folder", ORDER)
def test_folders_inside_a_folder_import_in_order(folder: str) -> None:
    order, package = ORDER[folder], folder.replace("/", ".")

    def place(name: str) -> int:
        """Of the folder or file inside the folder that a module stands in, in the order of imports."""
        inner = name.removeprefix(f"{package}.").split(".")[0]
        return order.index(inner if inner in order else "")

    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(folder)
        for name in imported(path)
        if name.startswith(f"{package}.") and place(name) > place(dotted(path))
        if dotted(path) != "cli.main"
    ]
    assert not wrong


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_files_import_each_other_in_a_circle() -> None:
    files = {dotted(path): path for folder in ALLOWED for path in modules(folder)}
    waiting = {name: {used for used in needed(path) if used in files and used != name} for name, path in files.items()}
    while ready := [name for name, used in waiting.items() if not used & waiting.keys()]:
        for name in ready:
            del waiting[name]
    assert not waiting, "these import each other, or what does"


def needed(path: Path) -> set[str]:
    """Modules that a file imports when it runs: what stands under TYPE_CHECKING is for readers."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            module = ".".join(filter(None, base))
            names |= {module} if node.module else set()
            names |= {f"{module}.{alias.name}".lstrip(".") for alias in node.names}
    return names


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
    names = ", ".join(f"kernelswarm.{dotted(path)}" for path in modules("cli/commands"))
    code = (
        f"import sys, kernelswarm.cli.main, {names}; "
        "print([n for n in ('torch', 'triton', 'anthropic', 'autogen_core', 'autogen_agentchat') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["", ".bus", ".store"])
def test_a_package_that_imports_late_exports_what_it_says(package: str) -> None:
    module = import_module(f"kernelswarm{package}")
    assert sorted(module.__all__) == sorted(dir(module))
    folder = Path(module.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    # The import of a module would take the place of what is exported under its name.
    assert not files & set(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_pythons_parser_has_one_thread_at_a_time() -> None:
    """Of several threads one fails now and then in Python 3.11, see ``hardware/sources/parsing.py``."""
    sources = (
        path
        for path in ROOT.rglob("*.py")
        if not {"tests", "benchmarks", ".venv", "kernelswarm-out", "build"} & set(path.parts)
    )
    assert [path.name for path in sources if "ast.parse(" in path.read_text(encoding="utf-8")] == ["parsing.py"]
