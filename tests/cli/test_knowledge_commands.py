"""``kernelswarm knowledge``: what it prints, how it ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.cli.commands.knowledge import EXAMPLES, document_paths

Command = Callable[..., Any]


def test_search_says_why_and_never_shows_another_platform(kernelswarm: Command) -> None:
    ran = kernelswarm("knowledge", "search", "wgmma descriptor swizzle", "--pool", "h200")
    assert ran.status == 0 and "hardware/nvidia/wgmma.md" in ran.out and "words descriptor" in ran.out
    documents = json.loads(kernelswarm("knowledge", "search", "threads", "--pool", "h200", "-n", "50", "--json").out)
    assert documents and not any("cpu" in document["path"] for document in documents)
    assert {"path", "title", "score", "reasons", "sha256", "level"} <= set(documents[0])
    assert not documents[0]["text"]


def test_nothing_to_find_is_an_answer(kernelswarm: Command) -> None:
    ran = kernelswarm("knowledge", "search", "zzzqqq", "--pool", "cpu")
    assert ran.status == 1 and ran.out == "" and "nothing for pool cpu" in ran.err
    assert json.loads(kernelswarm("knowledge", "search", "zzzqqq", "--json").out) == []


def test_show_prints_a_document_with_its_sources(kernelswarm: Command) -> None:
    ran = kernelswarm("knowledge", "show", "hardware/nvidia/tma.md")
    assert ran.out.startswith("# The Tensor Memory Accelerator") and "sources: " in ran.out
    shown = json.loads(kernelswarm("knowledge", "show", "hardware/nvidia/tma.md", "--json").out)
    assert shown["chip"][0] == "sm_90"


def test_a_manual_is_added_listed_shown_and_removed(kernelswarm: Command, tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text("# Blixt units\n\n" + "They move tiles of sixteen rows. " * 20)
    added = json.loads(kernelswarm("knowledge", "add", tmp_path / "guide.md", "--pool", "h200", "--json").out)
    assert added[0]["name"] == "guide" and added[0]["sections"] == 1
    path = "manuals/guide/0001-blixt-units.md"
    assert path in kernelswarm("knowledge", "list", "--pool", "h200").out
    assert path not in kernelswarm("knowledge", "list", "--pool", "cpu").out
    assert "sixteen" in kernelswarm("knowledge", "show", path, "--pool", "h200").out
    assert "--pool names the pool" in kernelswarm("knowledge", "show", path).err
    assert kernelswarm("knowledge", "remove", "guide", "--pool", "h200").status == 0
    assert kernelswarm("knowledge", "search", "blixt", "--pool", "h200").status == 1


def test_files_of_other_kinds_are_left_out_and_named(kernelswarm: Command, tmp_path: Path) -> None:
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides" / "guide.md").write_text("Blixt units move tiles. " * 20)
    for name in ("a.docx", "b.html", ".hidden.docx"):
        (tmp_path / "guides" / name).write_text("x")
    ran = kernelswarm("knowledge", "add", tmp_path / "guides", "--pool", "h200")
    assert ran.status == 0 and "files are read: a.docx, b.html\n" in ran.err


def test_lint_says_what_is_wrong_where(kernelswarm: Command, tmp_path: Path) -> None:
    ran = kernelswarm("knowledge", "lint")
    assert ran.status == 0 and ran.out.endswith(" documents, 0 problems\n")
    head = "---\ntitle: T\nplatform: nvidia\nlanguage: any\nbottleneck: any\nphase: any\nchip: h100\n---\n"
    (tmp_path / "a.md").write_text(head + "short, see https://example.org\n")
    (tmp_path / "b.md").write_text("no front matter\n")
    ran = kernelswarm("knowledge", "lint", tmp_path)
    assert ran.status == 1
    for message in ("characters: 300", "names no sources", "'h100' is no chip", "no front matter", "names an address"):
        assert message in ran.err
    report = json.loads(kernelswarm("knowledge", "lint", tmp_path, "--json").out)
    assert report["documents"] == 2 and {problem["path"] for problem in report["problems"]} == {"a.md", "b.md"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "x", "--pool", "h20"], "no pool is called 'h20' (did you mean 'h200'?)"),
        (["search", "x", "--language", "tritn"], "did you mean 'triton'"),
        (["search", "x", "--limit", "0"], "--limit"),
        (["search"], "needs QUERY"),
        (["show", "hardware/nvidia/tmaa.md"], "did you mean 'hardware/nvidia/tma.md'"),
        (["show", "hardware/cpu/openmp.md", "--pool", "h200"], "for pool h200"),
        (["add", "nowhere", "--pool", "h200"], "there is no file or folder nowhere"),
        (["remove", "guide"], "pool cpu has no manual 'guide'; there is none"),
        (["lint", "nowhere"], "there are no Markdown documents in nowhere"),
    ],
)
def test_bad_input_is_one_sentence(kernelswarm: Command, arguments: list[str], message: str) -> None:
    ran = kernelswarm("knowledge", *arguments)
    assert ran.status == 2 and message in ran.err and "Traceback" not in ran.err


def test_paths_complete() -> None:
    assert document_paths("hardware/nvidia/tm") == ["hardware/nvidia/tma.md"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_has_examples(kernelswarm: Command, name: str) -> None:
    ran = kernelswarm("knowledge", name, "--help")
    assert ran.status == 0 and "Examples" in ran.out
