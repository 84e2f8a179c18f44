"""From a completion to a candidate file."""

import subprocess
import sys
import textwrap

import pytest

from kernelswarm.agents.synthesizer.model.extract import Rejected, candidate_in, with_loader, without_loader
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.hardware.sources.native_source import native_source
from kernelswarm.knowledge import constraints

KERNEL = "def kernel(x):\n    return x\n"


def fence(source: str, tag: str = "python", ticks: str = "```") -> str:
    return f"{ticks}{tag}\n{source}{ticks}\n"


@pytest.mark.parametrize(
    "completion",
    [
        fence(KERNEL),
        fence(KERNEL, "py"),
        fence(KERNEL, "Python"),
        fence(KERNEL, ""),
        fence(KERNEL, ticks="````"),
        fence(KERNEL, ticks="~~~"),
        "Idea.\n" + fence(KERNEL) + "Done.",
        "In C++ it would be\n" + fence("int x;\n", "cpp") + fence(KERNEL),
        "The loop is\n" + fence("for i in x: pass\n") + "and so:\n" + fence(KERNEL),
        fence(KERNEL).replace("\n", "\r\n"),
    ],
)
def test_the_one_python_file_is_found(completion):
    assert candidate_in(completion).source == KERNEL


def test_a_fence_within_a_longer_fence_belongs_to_the_file():
    source = f'"""Doc\n\n```\nx\n```\n"""\n{KERNEL}'
    assert candidate_in(fence(source, ticks="````")).source == source


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("", "no fenced"),
        (KERNEL, "no fenced"),
        (fence("int x;\n", "cpp"), "no fenced"),
        ("```python\n" + KERNEL, "not closed"),
        (fence(KERNEL) + fence(KERNEL.replace("x", "y")), "2 fenced Python blocks"),
        (fence("def kernel(:\n"), "not valid Python: .* in line 1"),
        (fence("x = 1\x00\n"), "not valid Python"),
        (fence("def reference(x): ...\n"), "neither `def kernel` nor `class ModelNew`"),
        (fence("def outer():\n    def kernel(x): ...\n"), "neither"),
        (fence("(" * 5000 + "\n"), "not valid Python"),
    ],
)
def test_what_holds_no_file_says_why(completion, reason):
    with pytest.raises(Rejected, match=reason):
        candidate_in(completion)


@pytest.mark.parametrize("source", ["class ModelNew:\n    pass\n", "kernel = print\n", "kernel: object = print\n"])
def test_every_way_to_define_the_entry_point_counts(source):
    assert candidate_in(fence(source)).source == source


def test_the_rationale_is_what_stands_before_the_file():
    assert candidate_in("Fewer passes.\n\n" + fence(KERNEL) + "after").rationale == "Fewer passes."
    assert len(candidate_in("a" * 5000 + "\n" + fence(KERNEL)).rationale) == 600


def test_the_loader_goes_behind_docstring_and_imports():
    source = '"""Doc."""\nfrom __future__ import annotations\nimport torch\nCPP_SOURCE = "x"\n' + KERNEL
    loaded = with_loader(source)
    compile(loaded, "candidate", "exec")
    assert loaded.index("import torch") < loaded.index(LOADER) < loaded.index("CPP_SOURCE = ")
    assert native_source(loaded, "CPP").text == "x"
    assert "CPP_FLAGS = []" in loaded
    assert LOADER not in without_loader(loaded) and "CPP_SOURCE" in without_loader(loaded)


@pytest.mark.parametrize("source", [KERNEL, "CPP_SOURCE = 'x'\ndef _load(): ...\n" + KERNEL])
def test_a_file_that_needs_no_loader_is_left_alone(source):
    assert with_loader(source) == source


def test_the_example_in_the_rules_runs_as_it_stands(tmp_path):
    (rules,) = [rule for rule in constraints("cpu", "cpp") if rule.path.endswith("cpp.md")]
    example = textwrap.dedent("    import ctypes" + rules.text.split("    import ctypes", 1)[1])
    path = tmp_path / "candidate.py"
    path.write_text(candidate_in(fence(example)).source, encoding="utf-8")
    code = "import candidate, torch; x = torch.arange(7.0); assert torch.equal(candidate.kernel(x), 2 * x)"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
