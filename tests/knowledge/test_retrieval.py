"""Which documents are found, and in which order."""

from typing import Any

import msgspec
import pytest

from kernelswarm.knowledge import Document, Query, corpus, retrieve
from kernelswarm.knowledge.lint import problems
from kernelswarm.knowledge.retrieval import score, search
from kernelswarm.knowledge.text_index import stem


def document(path: str, **fields: Any) -> Document:
    default = {"platform": ("any",), "language": ("any",), "bottleneck": ("any",), "phase": ("any",)}
    return Document(path=path, title=path, text="x" * 100, **{**default, **fields})


def query(**fields: Any) -> Query:
    return Query(**{"platform": "cpu", "language": "cpp", "bottleneck": "latency", "phase": "improve", **fields})


@pytest.mark.parametrize(
    ("fields", "points"),
    [
        ({}, 2),
        ({"bottleneck": ("latency",)}, 5),
        ({"bottleneck": ("latency", "compute"), "phase": ("improve",)}, 6),
        ({"phase": ("improve",)}, 3),
        ({"bottleneck": ("compute",)}, 0),
        ({"bottleneck": ("compute",), "operators": ("norm",)}, 1),
        ({"bottleneck": ("latency",), "phase": ("draft",)}, 2),
        ({"bottleneck": ("latency",), "failure": ("crash",)}, 5),
        ({"bottleneck": ("latency",), "operators": ("norm", "layer", "native", "sum")}, 11),
        ({"bottleneck": ("latency",), "operators": ("exp", "mul", "sum")}, 8),
        ({"operators": ("conv",)}, 0),
        ({"bottleneck": ("latency",), "operators": ("conv",)}, 2),
        ({"platform": ("gpu",), "bottleneck": ("latency",)}, 0),
        ({"language": ("triton",), "bottleneck": ("latency",)}, 0),
        ({"platform": ("gpu", "cpu"), "language": ("cpp",), "bottleneck": ("latency",)}, 5),
    ],
)
def test_points(fields, points):
    operators = ("aten.native_layer_norm.default", "aten.exp.default", "aten.mul.Tensor", "aten.sum.dim_IntList")
    assert score(document("a.md", **fields), query(operators=operators)) == points


def test_best_first_then_by_path_and_rules_never():
    pool = [
        document("b.md"),
        document("a.md"),
        document("constraints/c.md", bottleneck=("latency",)),
        document("z.md", bottleneck=("latency",)),
    ]
    assert [entry.path for entry in retrieve(query(), documents=pool)] == ["z.md", "a.md", "b.md"]


def test_limits_of_number_and_length():
    pool = [document(f"{name}.md") for name in "abcdef"]
    assert len(retrieve(query(), documents=pool, limit=3)) == 3
    assert len(retrieve(query(), documents=pool, characters=250)) == 2


def test_the_order_of_the_corpus_does_not_matter():
    request = query(operators=("aten.bucketize.Tensor",))
    assert retrieve(request) == retrieve(request, documents=corpus()[::-1])
    details = [document.path for document in retrieve(request) if document.level == "detail"]
    assert details[0] == "hardware/cpu/lookups.md"


@pytest.mark.parametrize(
    "forms",
    [
        "coalesced coalescing coalesce",
        "transposition transposes transposed transpose",
        "dequantisation dequantized dequantizing dequantize dequantise",
        "launches launching launched launch",
        "reduction reductions reduced reducing reduce",
        "fusion fused fusing fuse",
        "mapping mapped map",
        "spilling spilled spills",
        "copies copied copying copy",
        "matrices matrix",
        "indices index indexes",
        "embeddings embedding embed",
        "allocator allocation allocates allocate",
        "vectorised vectorization vectors vector",
    ],
)
def test_forms_of_a_word_have_one_stem(forms):
    assert len({stem(word) for word in forms.split()}) == 1


def test_other_words_keep_their_stems_apart():
    names = ("sm_90", "fp8", "m16n8k16", "tma", "bus")
    words = (
        *names,
        "string",
        "strip",
        "speed",
        "spend",
        "need",
        "precision",
        "prefix",
        "warp",
        "warm",
        "cast",
        "cache",
    )
    assert len({stem(word) for word in words}) == len(words)
    assert tuple(map(stem, names)) == names


def test_reasons_name_words_as_they_were_asked():
    (hit,) = search(
        Query(platform="cpu", language="cpp", text="transposition and 4-bit weights"),
        documents=[document("a.md", keywords=("transposed", "4-bit"), bottleneck=("latency",))],
    )
    assert hit.reasons == ("words 4bit, transposition",)


def test_a_chip_counts_in_a_situation_and_not_for_a_question():
    pool = [document("a.md", keywords=("tile",)), document("b.md", keywords=("tile",), chip=("avx2",))]
    by_words = search(Query(platform="cpu", chips=("avx2",), text="tile"), documents=pool)
    in_situation = search(query(chips=("avx2",), text="tile"), documents=pool)
    assert [hit.document.path for hit in by_words] == ["a.md", "b.md"]
    assert [hit.document.path for hit in in_situation] == ["b.md", "a.md"]


PASSAGES = (
    "For all.\n<!-- only nvidia -->\nFor one vendor.\n<!-- end -->\n<!-- only gfx942 sm_90 -->\nFor two chips.\n"
    "<!-- end -->\n\nFor all again.\n"
)


@pytest.mark.parametrize(
    ("platform", "chips", "texts"),
    [
        ("nvidia", ("sm_90a",), ["For one vendor.", "For two chips."]),
        ("nvidia", ("sm_80",), ["For one vendor."]),
        ("amd", ("gfx942",), ["For two chips."]),
        ("amd", (), []),
    ],
)
def test_a_passage_is_for_the_platforms_and_chips_that_it_names(platform, chips, texts):
    documents = [msgspec.structs.replace(document("a.md"), text=PASSAGES)]
    (chosen,) = retrieve(Query(platform=platform, chips=chips), documents=documents)
    assert list(filter(None, chosen.text.splitlines())) == ["For all.", *texts, "For all again."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PASSAGES, ""),
        (PASSAGES.replace("<!-- end -->\n\n", "\n"), "marks passages wrongly"),
        (PASSAGES.replace("only nvidia -->\n", "only nvidia --> "), "marks passages wrongly"),
        (PASSAGES.replace("only nvidia", "only cpu"), "has a passage for cpu, and is about nvidia, amd"),
    ],
)
def test_lint_names_passages_that_no_reader_gets(text, message):
    fields = {"platform": ("nvidia", "amd"), "sources": ("s",)}
    marked = msgspec.structs.replace(document("a.md", **fields), text=text + "x\n" * 150)
    messages = [problem.message for problem in problems([marked])]
    assert [name.startswith(message) for name in messages] == ([True] if message else [])
