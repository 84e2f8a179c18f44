"""Which documents are found, and in which order."""

from typing import Any

import pytest

from kernelswarm.knowledge import Document, Query, corpus, retrieve
from kernelswarm.knowledge.retrieval import score


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
