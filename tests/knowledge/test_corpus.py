"""The documents that ship."""

import re
from importlib.resources import files

import pytest

from kernelswarm.knowledge import Query, constraints, corpus, retrieve
from kernelswarm.knowledge.documents import parse
from kernelswarm.knowledge.index import render_index
from kernelswarm.schemas import Bottleneck, InputError, Intent

HEAD = "---\ntitle: T\nplatform: any\nlanguage: any\nbottleneck: any\nphase: any\n---\n\nText.\n"


def test_the_index_is_up_to_date():
    index = files("kernelswarm.knowledge").joinpath("corpus/index.md").read_text(encoding="utf-8")
    assert index == render_index(corpus()), "run python -m kernelswarm.knowledge.index"


@pytest.mark.parametrize("document", corpus(), ids=lambda document: document.path)
def test_a_document_is_short_and_names_no_machine(document):
    assert 300 < len(document.text) < 7000
    assert max(len(line) for line in document.text.splitlines() if not line.startswith("|")) <= 120
    assert not re.search(r"/(work|home|tmp|usr)/|https?://", document.text)


def test_titles_are_unique():
    titles = [document.title for document in corpus()]
    assert len(set(titles)) == len(titles)


def test_the_rules_hold_everywhere():
    assert [rule.path for rule in constraints("cpu", "cpp")] == [
        "constraints/contract.md",
        "constraints/cpp.md",
        "constraints/honesty.md",
    ]
    assert [rule.path for rule in constraints("other", "other")] == [
        "constraints/contract.md",
        "constraints/honesty.md",
    ]


@pytest.mark.parametrize("bottleneck", [b for b in Bottleneck if b not in (Bottleneck.at_floor, Bottleneck.fault)])
def test_every_bottleneck_of_a_cpu_kernel_finds_something_about_it(bottleneck):
    documents = retrieve(Query(platform="cpu", language="cpp", bottleneck=bottleneck, phase=Intent.improve))
    assert documents and bottleneck in documents[0].bottleneck


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Text.\n", "no front matter"),
        ("---\ntitle: T\n", "no front matter"),
        ("---\n- a\n---\n", "not a mapping"),
        ("---\na: [\n---\n", "not YAML"),
        (HEAD.replace("title: T\n", ""), "lacks a title"),
        (HEAD.replace("phase: any\n", ""), "needs 'phase'"),
        (HEAD.replace("phase: any", "phase: []"), "needs 'phase'"),
        (HEAD.replace("phase: any", "phase: dream"), "'dream' is no phase"),
        (HEAD.replace("bottleneck: any", "bottleneck: [memory]"), "'memory' is no bottleneck"),
        (HEAD.replace("title: T", "title: T\ncolour: red"), "unknown field 'colour'"),
    ],
)
def test_a_wrong_head_is_named(text, message):
    with pytest.raises(InputError, match=message):
        parse("a.md", text)


def table(path, columns):
    """The rows of whole numbers at the beginning of ``columns`` columns of a document's tables."""
    (text,) = [document.text for document in corpus() if document.path == path]
    rows = re.findall(r"^\|" + r" (?:up to )?(\d+)[^|]*\|" * columns, text, re.MULTILINE)
    return [tuple(map(int, row)) for row in rows]


def test_the_tables_of_occupancy_by_registers_are_right():
    """NVIDIA allocates for each of four schedulers, AMD for each SIMD; both in steps of eight registers."""
    nvidia, amd = table("hardware/nvidia/occupancy.md", 2), table("hardware/amd/lds.md", 2)
    assert len(nvidia) == 5 and len(amd) == 8
    for registers, warps in nvidia:
        assert warps == 4 * (65_536 // 4 // (32 * (-(-registers // 8) * 8)))
    for registers, wavefronts in amd:
        assert wavefronts == min(8, 512 // registers)
