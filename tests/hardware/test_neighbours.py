"""A problem file may import the Python files beside it: they travel in its text."""

import inspect
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kernelswarm.hardware.sources.neighbours import PREFIX, refuse_neighbours
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import InputError, Problem, ProblemError, ProblemFormat

REST = "\nshapes = {'main': {}}\ndef inputs(generator): return []\n"


def written(folder: Path, **files: str) -> Path:
    """``a__b`` stands for ``a/b.py``; the problem is ``problem``."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "problem.py"


def run(path: Path) -> tuple[Problem, ModuleType]:
    """The problem, executed where its folder is gone."""
    problem = load_problem(path)
    shutil.rmtree(path.parent)
    module = ModuleType("problem")
    exec(compile(problem.source, "problem.py", "exec"), module.__dict__)
    return problem, module


@pytest.mark.parametrize(
    "imports",
    [
        "from helpers import value",
        "import helpers\nvalue = helpers.value",
        "import helpers as h, math\nvalue = h.value if math.pi else 0",
        "from .helpers import value",
        "from . import helpers\nvalue = helpers.value",
        "from .import helpers\nvalue = helpers.value",
        "from helpers import (\n    value,\n)",
        "from helpers import *",
        "import \\\n  helpers\nvalue = helpers.value",
        "try:\n    from helpers import value\nexcept ImportError:\n    value = 0",
        "if True:\n    import math; from helpers import value",
    ],
)
def test_every_spelling_of_an_import_works_without_the_folder(tmp_path: Path, imports: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    _, module = run(written(folder, helpers="value = 7", problem=imports + REST + "def reference(): return value"))
    assert module.reference() == 7


def test_packages_modules_in_them_and_their_relative_imports(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = written(
        folder,
        helpers="import blocks.gate\nBASE = 2",
        blocks____init__="from .gate import gate\nfrom .. import helpers",
        blocks__gate="def gate():\n    import helpers\n    return helpers.BASE + 1",
        plain__numbers="FIVE = 5",
        problem="import blocks\nimport plain.numbers\nfrom plain import numbers as n\n" + REST
        + "def reference(): return blocks.gate(), plain.numbers.FIVE, n.FIVE, blocks.helpers.BASE",
    )  # fmt: skip
    assert run(path)[1].reference() == (3, 5, 5, 2)


def test_neighbours_that_import_one_another_work_as_in_python(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = written(
        folder,
        one="import two\ndef f(n): return two.g(n - 1) if n else 'one'",
        two="import one\ndef g(n): return one.f(n - 1) if n else 'two'",
        problem="from one import f" + REST + "def reference(): return f(2), f(3)",
    )
    assert run(path)[1].reference() == ("one", "two")


def test_the_reference_and_the_model_may_come_from_a_neighbour(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        layers="class Model: ...\ndef get_inputs(): return []\n_private = 1",
        functions="shapes = {}\ndef inputs(generator): return []\ndef reference(): ...",
        problem="from layers import Model, get_inputs",
        other="from functions import *",
    )
    assert load_problem(path).format is ProblemFormat.kernelbench
    assert load_problem(tmp_path / "other.py").format is ProblemFormat.function


def test_no_name_of_the_user_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = written(folder, helpers="value = 1", problem="import helpers" + REST + "def reference(): ...")
    problem, _ = run(path)
    assert "helpers" not in sys.modules
    assert sum(name.startswith(PREFIX) and name.endswith(".helpers") for name in sys.modules) >= 1
    assert str(tmp_path) not in problem.source


@pytest.mark.parametrize(
    "text",
    [
        '"""A text\nof two lines."""\n\nfrom __future__ import annotations\nimport helpers\n',
        "# a remark\ndef first():\n    import helpers\n\nimport helpers\n",
        "import math\n\nclass First:\n    import helpers as h\nimport helpers\n",
    ],
)
def test_lines_keep_their_numbers_and_the_text_can_be_read(tmp_path: Path, text: str) -> None:
    source = text + REST + "def reference():\n    raise ValueError\n"
    path = written(tmp_path, helpers="\ndef broken():\n    raise KeyError", problem=source)
    bundled = load_problem(path).source
    line_index = source.split("\n").index("    raise ValueError")
    assert bundled.split("\n")[line_index] == "    raise ValueError"
    module = ModuleType("problem")
    exec(compile(bundled, "problem.py", "exec"), module.__dict__)
    assert inspect.getsource(module.helpers.broken).strip() == "def broken():\n    raise KeyError"


def test_a_change_in_a_neighbour_is_another_problem(tmp_path: Path) -> None:
    path = written(tmp_path, helpers="value = 1", problem="import helpers" + REST + "def reference(): ...")
    before = load_problem(path)
    assert load_problem(path) == before
    (tmp_path / "helpers.py").write_text("value = 2")
    assert load_problem(path).sha256 != before.sha256


def test_what_is_beside_it_and_not_imported_does_not_travel(tmp_path: Path) -> None:
    source = "import math, random" + REST + "def reference(): ..."
    path = written(tmp_path, random="raise SystemExit", unused="syntax error", problem=source)
    assert load_problem(path).source == source


@pytest.mark.parametrize(
    ("imports", "files", "sentence"),
    [
        (
            "import nosuch_module",
            {},
            "problem.py imports `nosuch_module`, which is neither installed nor a file beside",
        ),
        ("from .nosuch import f", {}, "problem.py imports `.nosuch`, but in its folder there is no nosuch.py"),
        ("from . import nosuch", {}, "problem.py imports `.nosuch`, but in its folder there is no nosuch.py"),
        (
            "import blocks.nosuch",
            {"blocks__a": ""},
            "imports `blocks.nosuch`, but in its folder there is no blocks/nos",
        ),
        ("from .. import f", {}, "problem.py imports from above the problem's folder"),
        (
            "import helpers",
            {"helpers": "def f(:"},
            r"helpers.py, which problem.py imports, is not Python: .* \(line 1\)",
        ),
        ("import helpers", {"helpers": "import nosuch_two"}, "helpers.py imports `nosuch_two`, which is neither"),
        ("import helpers", {"helpers": "x = 1 #" + "x" * (1 << 20)}, "helpers.py, which problem.py imports, has"),
        ("import a, b", {"a": "#" + "a" * (1 << 19), "b": "#" + "b" * (1 << 19)}, "characters; 1048576 can travel"),
    ],
)
def test_what_cannot_travel_is_refused_in_one_sentence(
    tmp_path: Path, imports: str, files: dict[str, str], sentence: str
) -> None:
    path = written(tmp_path, problem=imports + REST + "def reference(): ...", **files)
    with pytest.raises(ProblemError, match=sentence) as caught:
        load_problem(path)
    assert "\n" not in str(caught.value)


def test_an_import_that_may_fail_is_left_to_the_file(tmp_path: Path) -> None:
    guarded = "try:\n    import nosuch_module\nexcept ImportError:\n    nosuch_module = None\n"
    path = written(tmp_path, problem=guarded + REST + "def reference(): ...")
    assert load_problem(path).source.startswith(guarded)


def test_a_candidate_is_one_self_contained_file(tmp_path: Path) -> None:
    path = written(tmp_path, helpers="", problem="import torch, helpers")
    with pytest.raises(InputError, match=r"imports helpers.py: a candidate is one self-contained file"):
        refuse_neighbours(path.read_text(), path)
    refuse_neighbours("import torch\ndef kernel(x): return x", path)
    refuse_neighbours("def kernel(:", path)
