"""What is retrieved for situations and for questions, against what an engineer would want; and what never is."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from platform_words import foreign_words

from kernelswarm.knowledge import Library, corpus, open_library
from kernelswarm.knowledge.retrieval import operator_name
from kernelswarm.schemas import Bottleneck, Intent, KnowledgeQuery, Pool, Verdict

DATA = tomllib.loads(Path(__file__).with_name("retrieval_cases.toml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = DATA["case"]
QUESTIONS = tomllib.loads(Path(__file__).with_name("retrieval_questions.toml").read_text(encoding="utf-8"))
"""In words alone."""
LIMIT = 5
RECALL = 0.9


def library(name: str) -> Library:
    facts = DATA["pools"][name]
    return open_library(
        Pool(name=name, platform=facts["platform"], languages=tuple(facts["languages"])), facts["chips"]
    )


def with_operators(case: dict[str, Any]) -> dict[str, Any]:
    """The case with its operators as words, too, as a prompt's look-up has them."""
    names = " ".join(map(operator_name, case.get("operators", ())))
    return {**case, "text": f"{names}\n{case.get('text', '')}"}


def retrieved(case: dict[str, Any]) -> list[str]:
    pool = library(case["pool"])
    signals = {key: value for key, value in case.items() if key not in ("pool", "wanted", "operators")}
    query = KnowledgeQuery(
        pool=pool.pool,
        platform=pool.platform,
        chips=pool.chips,
        operators=tuple(case.get("operators", ())),
        **signals,
    )
    return [hit.document.path for hit in pool.search(query, limit=LIMIT)]


def test_there_are_enough_cases_and_they_name_documents_that_the_pool_has():
    assert len(CASES) >= 80
    for case in (*CASES, *QUESTIONS["seen"], *QUESTIONS["fresh"]):
        paths = {document.path for document in library(case["pool"]).documents}
        assert set(case["wanted"]) <= paths, case


@pytest.mark.parametrize(
    "cases",
    [CASES, list(map(with_operators, CASES)), QUESTIONS["seen"], QUESTIONS["fresh"]],
    ids=["signals", "operators as words", "questions", "fresh questions"],
)
def test_recall_at_five(cases: list[dict[str, Any]]):
    misses, recalls = [], []
    for case in cases:
        paths = retrieved(case)
        hits = [path for path in case["wanted"] if path in paths]
        recalls.append(len(hits) / len(case["wanted"]))
        if len(hits) < len(case["wanted"]):
            misses.append((case["pool"], case.get("text", ""), case["wanted"], paths))
    recall = sum(recalls) / len(recalls)
    assert recall >= RECALL, f"recall at {LIMIT} is {recall:.3f}: {misses}"


WORDS = sorted({word for document in corpus() for word in (document.title.split() + list(document.keywords))})
OPERATORS = sorted({operator for document in corpus() for operator in document.operators})


@settings(max_examples=150, deadline=None, derandomize=True)
@examples(
    st.sampled_from(sorted(DATA["pools"])),
    st.sampled_from(["", "cpp", "triton", "cuda"]),
    st.sampled_from(["", *Bottleneck]),
    st.sampled_from(["", *Intent]),
    st.sampled_from(["", *Verdict]),
    st.lists(st.sampled_from(OPERATORS), max_size=4),
    st.lists(st.sampled_from(WORDS), max_size=6),
)
def test_no_document_of_another_platform_chip_or_language_ever_comes_back(
    name: str, language: str, bottleneck: str, phase: str, failure: str, operators: list[str], words: list[str]
):
    pool = library(name)
    query = KnowledgeQuery(
        platform=pool.platform,
        chips=pool.chips,
        pool=name,
        language=language,
        bottleneck=bottleneck,
        phase=phase,
        failure=failure,
        operators=tuple(operators),
        text=" ".join(words),
    )
    for hit in pool.search(query, limit=50):
        document = hit.document
        assert {"any", pool.platform} & set(document.platform)
        assert not document.chip or set(document.chip) & set(pool.chips)
        assert not language or {"any", language} & set(document.language)
        assert hit.reasons and hit.score > 0


@pytest.mark.parametrize("name", sorted(DATA["pools"]))
def test_no_document_of_a_pool_speaks_of_other_hardware(name: str):
    pool = library(name)
    kind = pool.platform if pool.platform != "cpu" else "arm" if "asimd" in pool.chips else "x86"
    wrong = {
        document.path: match[0]
        for document in pool.documents
        if (match := foreign_words(kind).search(document.title + "\n" + document.text))
    }
    assert not wrong
