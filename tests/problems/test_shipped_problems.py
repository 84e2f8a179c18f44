"""Every problem that ships keeps the contract of its format, and no trivial answer is right on it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import LONG_S

from kernelswarm.problems import shipped

ASKED_FOR = {
    "batch_event_truncate",
    "conv1d",
    "conv1d_half",
    "cross_entropy",
    "gelu_bias",
    "layernorm_residual",
    "mapid",
    "mbdt",
    "optfm",
    "optfm_half",
    "pffn",
    "pffn_half",
    "rmsnorm",
    "rotary",
    "softmax",
    "swiglu",
}
CHECK = Path(__file__).with_name("check_problem.py")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def defined(tree: ast.Module) -> dict[str, ast.stmt]:
    names: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = node
    return names


def is_kernelbench(path: Path) -> bool:
    return "Model" in defined(tree_of(path))


def shapes_of(path: Path) -> dict[str, dict[str, int]]:
    node = defined(tree_of(path))["shapes"]
    assert isinstance(node, ast.Assign)
    return ast.literal_eval(node.value)


FUNCTION_FILES = [path for path in shipped() if not is_kernelbench(path)]
KERNELBENCH_FILES = [path for path in shipped() if is_kernelbench(path)]


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=[path.stem for path in paths])


def test_the_operators_asked_for_ship_and_both_formats_are_among_them() -> None:
    assert {path.stem for path in shipped()} >= ASKED_FOR
    assert KERNELBENCH_FILES
    assert all(path.stem.endswith("_kb") for path in KERNELBENCH_FILES)


def test_shipped_leaves_the_package_file_out_and_is_sorted() -> None:
    names = [path.name for path in shipped()]
    assert "__init__.py" not in names
    assert names == sorted(names)


@named(shipped())
def test_the_docstring_names_the_source(path: Path) -> None:
    doc = ast.get_docstring(tree_of(path)) or ""
    assert "Source:" in doc


@named(shipped())
def test_a_problem_needs_nothing_but_torch(path: Path) -> None:
    roots: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            roots.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            roots.add((node.module or "").split(".")[0])
    assert roots <= {"torch", "math"}


@named(FUNCTION_FILES)
def test_a_function_file_times_main_and_checks_other_shapes(path: Path) -> None:
    shapes = shapes_of(path)
    assert next(iter(shapes)) == "main"
    assert len(shapes) >= 4
    inputs = defined(tree_of(path))["inputs"]
    assert isinstance(inputs, ast.FunctionDef)
    first, *rest = [argument.arg for argument in inputs.args.args]
    assert first == "generator"
    assert all(list(shape) == rest for shape in shapes.values())


@named(FUNCTION_FILES)
def test_every_random_number_comes_from_the_generator(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("rand"):
            assert "generator" in {keyword.arg for keyword in node.keywords}, ast.unparse(node)


@named(KERNELBENCH_FILES)
def test_a_kernelbench_file_defines_its_three_names(path: Path) -> None:
    assert {"Model", "get_inputs", "get_init_inputs"} <= set(defined(tree_of(path)))


BAD = {
    "zeros": "return x * 0 + 0 * y",
    "ones": "return x * 0 + 1",
    "the first row": "return x[:1].expand_as(x)",
    "a constant": "return x * 0 + x.mean()",
    "float64": "return (x * y).float()",
    "deterministic": "return x + torch.rand(1)",
    "writes to its inputs": "return x.mul_(2)",
    "finite": "return x / 0",
    "does not depend on y": "return x * 3",
}


def write_bad(folder: Path) -> list[Path]:
    """One problem file per complaint that the check must make."""
    paths = []
    for complaint, body in BAD.items():
        path = folder / f"bad_{complaint.replace(' ', '_')}.py"
        path.write_text(
            "import torch\n"
            "shapes = {'main': {'n': 9}, 'small': {'n': 5}}\n"
            "def inputs(generator, n):\n"
            "    return [torch.randn(n, 3, generator=generator), torch.randn(n, 3, generator=generator)]\n"
            f"def reference(x, y):\n    {body}\n",
            encoding="utf-8",
        )
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong with each problem, found by one process for all of them: torch takes seconds to import."""
    paths = [*shipped(), *write_bad(tmp_path_factory.mktemp("bad"))]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(CHECK), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    report: dict[str, list[str]] = json.loads(ran.stdout)
    return report


@named(shipped())
def test_a_problem_is_deterministic_runs_in_float64_and_is_not_degenerate(
    findings: dict[str, list[str]], path: Path
) -> None:
    assert findings[path.stem] == []


@pytest.mark.parametrize("complaint", BAD)
def test_the_check_complains_about_a_bad_problem(findings: dict[str, list[str]], complaint: str) -> None:
    assert any(complaint in finding for finding in findings[f"bad_{complaint.replace(' ', '_')}"])
