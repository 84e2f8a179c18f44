"""From a completion to a candidate file."""

import json
import subprocess
import sys
import textwrap

import pytest

from kernelswarm.agents.synthesizer.model.extract import Rejected, candidate_in, with_loader, without_loader
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.hardware.sources.native_source import native_source
from kernelswarm.knowledge import constraints

KERNEL = "def kernel(x):\n    return x\n"


OTHER = KERNEL.replace("x", "y")


def written(source: str, tool: str = "submit") -> str:
    """A call of a tool as Hermes and Qwen write it, which a server without their parser hands on as text."""
    call = json.dumps({"name": tool, "arguments": {"source": source, "idea": "Fewer passes."}})
    return f"<tool_call>\n{call}\n</tool_call>\n"


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
        fence(KERNEL) + "The same again:\n" + fence(KERNEL),
        fence("x = 1\n", "") + fence(KERNEL, ""),
        f"<think>\nA draft:\n{fence(OTHER)}</think>\nIdea.\n{fence(KERNEL)}",
        f"A draft:\n{fence(OTHER)}</think>\nIdea.\n{fence(KERNEL)}",
        f"[THINK]{fence(OTHER)}[/THINK]{fence(KERNEL)}",
        f"{fence(KERNEL)}<think>Is it right? {fence(OTHER)}</think>\nYes.",
        KERNEL,
        f"\n\n{KERNEL}\n",
        "1. The file:\n\n" + textwrap.indent(fence(KERNEL), "   "),
        "- " + textwrap.indent(fence(KERNEL), "  ").lstrip(),
        "   - The file:\n" + textwrap.indent(fence(KERNEL), "\t\t"),
        "  ```python\n" + textwrap.indent(KERNEL, "    ") + "  ```\n",
        f"Here: ```python\n{KERNEL}```\n",
        f"Here: ```python\n{KERNEL}```\nand again: ```python\n{KERNEL}```",
        f"Idea.\n```python\n{KERNEL.rstrip()}```\n",
        f"Idea.\n```python\n{KERNEL}``` It reads x once.\n",
        f"```cpp\nint a;```\nThe file:\n```python\n{KERNEL}```\n",
        fence(KERNEL.rstrip()) + "\n```\n",
    ],
)
def test_the_one_python_file_is_found(completion):
    assert candidate_in(completion).source == KERNEL


def test_a_file_without_a_fence_may_stand_behind_words():
    source = "import torch\n\n\n" + KERNEL
    candidate = candidate_in(f"From one pass to none.\n\n{source}")
    assert (candidate.source, candidate.rationale) == (source, "From one pass to none.")


@pytest.mark.parametrize(
    "completion",
    [
        written(KERNEL),
        f"One pass.\n{written(KERNEL)}",
        written(KERNEL, "check") + written(KERNEL),
        written(OTHER, "check") + written(KERNEL),
        written(KERNEL).replace("\\n", "\n"),
        f'[TOOL_CALLS][{{"name": "submit", "arguments": {json.dumps({"source": KERNEL})}}}]',
        f'<|python_tag|>{{"name": "submit", "parameters": {json.dumps({"source": KERNEL})}}}',
        json.dumps({"function": {"name": "submit", "arguments": json.dumps({"source": KERNEL})}}),
        "function<｜tool▁sep｜>submit\n" + fence(json.dumps({"source": KERNEL}) + "\n", "json"),
        "<|channel|>commentary to=functions.submit <|message|>" + json.dumps({"source": KERNEL}),
        f"<tool_call>\n<function=submit>\n<parameter=source>\n{KERNEL}</parameter>\n</function>\n</tool_call>",
        f"<tool_call>submit\n<arg_key>source</arg_key>\n<arg_value>{KERNEL}</arg_value>\n</tool_call>",
        f'<invoke name="submit"><parameter name="source">{KERNEL}</parameter></invoke>',
        fence(KERNEL) + written(KERNEL),
    ],
)
def test_a_file_that_is_handed_in_by_a_call_written_as_text_is_taken(completion):
    assert candidate_in(completion).source == KERNEL


def test_the_idea_of_a_call_written_as_text_is_the_rationale():
    assert candidate_in(written(KERNEL)).rationale == "Fewer passes."


@pytest.mark.parametrize("line", ["# as in ```x```", '"""\n    ```\nx\n  ``` where\n"""'])
def test_a_fence_in_comments_and_strings_closes_nothing(line):
    source = f"{line}\n{KERNEL}"
    assert candidate_in(fence(source)).source == source


def test_a_fence_within_a_longer_fence_belongs_to_the_file():
    source = f'"""Doc\n\n```\nx\n```\n"""\n{KERNEL}'
    assert candidate_in(fence(source, ticks="````")).source == source


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("", "no fenced"),
        ("Use one pass.", "no fenced .* as a whole it is no Python file"),
        (fence("int x;\n", "cpp"), "no fenced ```python block, only ```cpp"),
        ("```python\n" + KERNEL, "'```python' opens is not closed by a line of its own: the answer ended early, or"),
        (
            f"```python\n{KERNEL.strip()} (```\n",
            "or the last fence stands within a line of code that is no valid Python",
        ),
        (fence(KERNEL) + fence(OTHER), "2 different files in 2 fenced Python blocks: exactly one file is wanted"),
        (fence(KERNEL) + fence("x(\n") + fence(OTHER), "2 different files in 3 fenced Python blocks"),
        (fence(KERNEL) + written(OTHER), "2 different files in 1 fenced Python block and 1 call of `submit` written"),
        (written(KERNEL) + written(OTHER), "2 different files in 2 calls of `submit` written as text"),
        (fence("x = 1\n") + fence("y = 2\n"), "2 fenced Python blocks, and none is a whole file"),
        (written(KERNEL, "check"), "calls `check` in its text, where no tool is carried out, and holds no file"),
        (written("def kernel(:\n"), "not valid Python: .* in line 1"),
        (f"<think>\n{fence(KERNEL)}</think>\n", "thinking alone: no file stands behind it"),
        (f"<think>\n{fence(KERNEL)}", "thinking alone, which does not end"),
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
