"""What one pool may look up: words, chips, manuals of the user, and the event that records it."""

import subprocess
import sys
from pathlib import Path

import pytest

import given
from kernelswarm.knowledge import Document, Library, Query, open_library, search
from kernelswarm.knowledge.text_index import words
from kernelswarm.schemas import InputError, Intent, Pool, decode_envelope, encode

GPU = Pool(name="h200", platform="nvidia", languages=("triton", "cuda"), target="sm_90")
CPU = Pool(name="cpu", platform="cpu", languages=("cpp",))


def document(path: str, **fields: object) -> Document:
    default = {"platform": ("any",), "language": ("any",), "bottleneck": ("any",), "phase": ("any",), "text": "x\n"}
    return Document(path=path, title=path, **{**default, **fields})  # type: ignore[arg-type]


def ask(text: str = "", **fields: object) -> Query:
    return Query(**{"platform": "nvidia", "language": "triton", "chips": ("sm_90",), "text": text, **fields})  # type: ignore[arg-type]


def test_words_decide_between_equals_and_are_named_as_the_reason() -> None:
    documents = [document("a.md", text="the tensor map of a bulk copy"), document("b.md", text="warps and registers")]
    (best,) = search(ask("How do I make registers spill less?"), documents=documents)
    assert best.document.path == "b.md"
    assert best.reasons[-1] == "words registers"


@pytest.mark.parametrize(
    ("chip", "here", "serves"),
    [
        ((), ("sm_90",), True),
        ((), (), True),
        (("sm_90",), ("sm_90a",), True),
        (("sm_90",), ("sm_80",), False),
        (("sm_90",), (), False),
        (("avx512f",), ("avx2", "avx512f"), True),
        (("amx_tile",), ("avx2", "avx512f"), False),
    ],
)
def test_a_document_that_names_chips_comes_back_only_where_they_are(chip, here, serves) -> None:
    hits = search(ask("words", chips=here), documents=[document("a.md", chip=chip, text="words")])
    assert bool(hits) is serves


def test_overviews_come_before_details() -> None:
    documents = [
        document("a.md", bottleneck=("latency",)),
        document("b.md", level="overview", phase=("improve",)),
        document("d.md", level="overview"),
        document("c.md", bottleneck=("latency",), phase=("improve",)),
    ]
    hits = search(ask(bottleneck="latency", phase="improve"), documents=documents)
    assert [hit.document.path for hit in hits] == ["b.md", "c.md", "a.md", "d.md"]


def test_a_failure_leads_to_what_repairs_it() -> None:
    documents = [document("a.md", bottleneck=("latency",)), document("b.md", failure=("crash",), bottleneck=())]
    (hit,) = search(ask(failure="crash"), documents=documents)
    assert hit.document.path == "b.md" and "failure crash" in hit.reasons


def test_what_says_little_beside_the_best_is_left_out_though_there_is_room() -> None:
    documents = [
        document("a.md", bottleneck=("latency",), phase=("improve",), operators=("softmax", "layer_norm", "gelu")),
        document("b.md"),
    ]
    hits = search(
        ask(bottleneck="latency", phase="improve", operators=("softmax", "layer_norm", "gelu")), documents=documents
    )
    assert [hit.document.path for hit in hits] == ["a.md"]


def test_few_words_that_match_prove_little() -> None:
    documents = [document("a.md", text="kernel " * 30), document("b.md", text="other " * 30)]
    (hit,) = search(ask("a kernel"), documents=documents)
    assert 0 < hit.score < 2


def test_a_library_reads_what_it_holds_and_names_the_nearest_of_what_it_does_not() -> None:
    library = open_library(GPU, ("sm_90",))
    assert library.read("constraints/contract.md").title
    with pytest.raises(InputError, match=r"did you mean 'constraints/contract\.md'"):
        library.read("constraint/contract.md")
    with pytest.raises(InputError, match="for pool h200"):
        library.read("hardware/cpu/openmp.md")


def test_a_retrieval_is_an_event_that_holds_query_reasons_and_texts() -> None:
    library = open_library(CPU, ("avx2",))
    query = library.query(language="cpp", intent=Intent.improve, bottleneck="latency", words=("binary search",))
    hits = library.search(query, limit=3)
    event = library.retrieved("prompt", query, hits)
    assert decode_envelope(encode(given.envelope_of(event))).event() == event
    first = event.documents[0]
    assert first.text and first.reasons and first.score > 0 and event.query.bottleneck == "latency"
    assert not library.retrieved("outside", query, hits, with_text=False).documents[0].text


def test_a_manual_of_a_pool_is_there_for_that_pool_alone(tmp_path: Path) -> None:
    folder = tmp_path / "knowledge" / "h200" / "guide"
    folder.mkdir(parents=True)
    (folder / "001-fabric.md").write_text("# The quuxline fabric\n\nIt moves frobnicated tiles.\n")

    def paths(pool: Pool) -> list[str]:
        library = open_library(pool, ("sm_90",), tmp_path)
        return [hit.document.path for hit in library.search(library.query(words=("frobnicated quuxline tiles",)))]

    assert paths(GPU)[0] == "manuals/guide/001-fabric.md"
    assert not any(path.startswith("manuals/") for path in paths(CPU))


def test_words_are_split_the_same_everywhere() -> None:
    assert words("The num_warps of cp.async.bulk, 41 classes?") == [
        "num_warps", "num", "warps", "cp.async.bulk", "cp", "async", "bulk", "classes",
    ]  # fmt: skip


def test_another_process_with_another_hash_seed_gives_the_same_answer() -> None:
    code = (
        "from kernelswarm.knowledge import *; q = Query(platform='cpu', language='cpp', text='threads and caches, "
        "page faults of fresh outputs'); print([(h.document.path, h.score, h.reasons) for h in search(q)])"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1 and "page-faults" in answers.pop()


def test_importing_knowledge_imports_no_numpy() -> None:
    code = "import sys, kernelswarm.knowledge; print([n for n in ('numpy', 'bm25s', 'torch') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_rules_are_the_pools() -> None:
    library: Library = open_library(GPU, ("sm_90",))
    assert all(not path.endswith("cpp.md") for path in (rule.path for rule in library.constraints("triton")))
