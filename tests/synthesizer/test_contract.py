"""What one problem asks of a file: the same sentences for outside authors and for models."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import given
from kernelswarm.agents.synthesizer.backend import Attempt, Request
from kernelswarm.agents.synthesizer.contract import contract
from kernelswarm.agents.synthesizer.model.prompt import SESSION_TOKENS, compose
from kernelswarm.agents.synthesizer.model.tokens import estimated_tokens
from kernelswarm.agents.synthesizer.request import request_of
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    OUTSIDE,
    Envelope,
    InputError,
    InputFact,
    InputKind,
    Intent,
    MemoryOperator,
    NodePlanned,
    SessionOpened,
    ShapeFacts,
    StateFact,
    TaskOpened,
    Verdict,
    Work,
)
from kernelswarm.sessions.outside import views
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.sessions.session import open_session

MANY = InputFact(name="x", kind="tensor", shape=(64, 256), dtype="float32")
INDEX = InputFact(name="output_1", kind="tensor", shape=(64,), dtype="int64")
DRAFT = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate, synthesizer="anthropic")


def shape(name: str, weight: float = 0.0, work: Work | None = None, **fields: Any) -> ShapeFacts:
    tensors = {"inputs": (MANY,), "outputs": (MANY,)}
    return ShapeFacts(name=name, weight=weight, work=work, **(tensors | fields))


def sentences(source: str = "", **fields: Any) -> str:
    facts = given.facts(**fields)
    return "\n".join(contract(msgspec.structs.replace(given.problem(), source=source), facts))


def prompt_of(opened: SessionOpened) -> str:
    return compose(request_of(SearchGraph("s"), opened, "n001", DRAFT)).session


TWO = (shape("big", 1.0), shape("tall", 3.0, Work(read_bytes=4096, write_bytes=8192, flops=77)), shape("odd"))
RICH: dict[str, Any] = {
    "shapes": TWO,
    "signature": ("x", "cotangents"),
    "state": (StateFact(name="norm.running_mean", kind="buffer"), StateFact(name="x", kind="input")),
    "error_bound": 1.9e-6,
    "input_kinds": (InputKind(name="held_out", shape="big"),),
}


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ((shape("main"),), "timed at shape main"),
        ((shape("main"), shape("odd")), "timed at shape main; at the other shapes it must be right"),
        (TWO[:2], "timed at big (weight 1) and tall (weight 3): the speedup is the geometric mean"),
        (TWO, "by their weights; at the other shapes it must be right"),
    ],
)
def test_it_names_the_timed_shapes_and_their_weights(shapes: tuple[ShapeFacts, ...], sentence: str) -> None:
    assert sentence in sentences(shapes=shapes).splitlines()[0]


def test_a_backward_pass_is_asked_for_with_its_form() -> None:
    text = sentences(signature=("x", "w", "cotangents"))
    assert "timed at shape main, forward and backward pass as one call" in text
    assert "gradients of sum(output * cotangent) by every floating input (`x`)" in text
    assert "`kernel` returns the outputs alone" in text and "`def backward(x, w, cotangents...)`" in text
    assert "gradients off" not in text


def test_without_one_it_says_what_a_call_with_gradients_on_must_give() -> None:
    assert "or no graph at all" in sentences()
    whole = msgspec.structs.replace(MANY, dtype="int64")
    assert "gradients" not in sentences(shapes=(shape("main", inputs=(whole,)),)), "nothing has any"


def test_state_that_a_call_changes_is_named() -> None:
    text = sentences(state=RICH["state"])
    assert "changes buffer `norm.running_mean` and input `x`: leave the same in it" in text
    assert "changes" not in sentences()


@pytest.mark.parametrize(
    ("source", "fields", "sentence"),
    [
        ("", {"error_bound": 1.9e-6}, "(|right| + rms(right)), may be 1.9e-06 at main"),
        (
            "",
            {"shapes": (TWO[0], msgspec.structs.replace(TWO[1], error_bound=4e-6)), "error_bound": 1.9e-6},
            "may be 1.9e-06 at big and 4e-06 at tall",
        ),
        ("", {"error_bound": 0.1, "error_bounds": {"output_0": 0.1, "output_1": 0.2}}, "output_0 0.1, output_1 0.2"),
        ("", {"error_bound": 0.1, "float64_oracle": False}, "the reference at its own precision"),
        ("", {"error_bound": 0.0}, "the answer has to be equal"),
        ("tolerance = {}\n", {"error_bound": None}, "how far off it may be is the file's own `tolerance`"),
        ("published_tolerance = {}\n", {"error_bound": None}, "precision to match: float32\n"),
    ],
)
def test_it_says_how_wrong_an_answer_may_be(source: str, fields: dict[str, Any], sentence: str) -> None:
    assert sentence in sentences(source, **fields) + "\n"


def test_ties_and_other_sizes_are_named_where_they_matter() -> None:
    ordered = sentences(operators=("aten.topk.default",), shapes=(shape("main", outputs=(MANY, INDEX)),))
    assert "of equal values those count that the reference chooses" in ordered
    assert "sizes that the problem does not name are tried" in sentences(input_kinds=RICH["input_kinds"])
    assert "equal values" not in sentences() and "does not name" not in sentences()


def test_a_model_and_an_outside_author_are_told_the_same() -> None:
    opened = given.opened(synthesizer=OUTSIDE, facts=given.facts(**RICH), tells_contract=True)
    graph, plan = SearchGraph("s-test1"), msgspec.structs.replace(DRAFT, synthesizer=OUTSIDE)
    for index, (event, node) in enumerate([(opened, ""), (plan, "n001"), (TaskOpened(checks=12), "n001")]):
        graph.apply(given.envelope_of(event, node=node, index=index), event)
    brief, session = views.brief(graph, "n001"), prompt_of(opened)
    assert len(brief.contract) == 5
    assert all(f"- {sentence}\n" in session for sentence in (brief.write, *brief.contract))
    assert "Only the first shape" not in session
    assert (
        "timed shape big: 65536 bytes" in session and "timed shape tall: 4096 bytes read, 8192 written, 77" in session
    )


def test_older_sessions_are_asked_in_their_words() -> None:
    opened = given.opened(facts=given.facts(**RICH))
    request = request_of(SearchGraph("s"), opened, "n001", DRAFT)
    prompt = compose(request)
    assert "Only the first shape is timed." in prompt.session
    assert "geometric mean" not in prompt.session and "timed shape tall" not in prompt.session
    unless = "copies after every call, unless the reference changes them."
    assert unless not in prompt.system and "copies after every call." in prompt.system
    assert unless in compose(msgspec.structs.replace(request, tells_contract=True)).system


def with_problem(request: Request, characters: int) -> Request:
    source = request.problem.source + "#" * characters
    return msgspec.structs.replace(
        request, problem=msgspec.structs.replace(request.problem, source=source), tells_contract=True
    )


def test_a_problem_that_is_too_long_is_refused_with_its_size_and_a_way_out(make_request) -> None:
    fits = compose(with_problem(make_request(), 3 * SESSION_TOKENS - 5_000))
    assert estimated_tokens(fits.session) <= SESSION_TOKENS
    sentence = r"takes about 93,\d+ tokens of a prompt, which has room for 40,000: take out of the problem file .* or"
    with pytest.raises(InputError, match=sentence):
        compose(with_problem(make_request(), 280_000))
    sentence = (
        r"room for 10,\d+ in the model's context of 32,000: .* choose a model with a larger context, or use --auth"
    )
    with pytest.raises(InputError, match=sentence):
        compose(with_problem(make_request(), 50_000), context=32_000, answer=16_000)
    assert "#" * 9_000 in compose(with_problem(make_request(), 9_000), context=32_000, answer=16_000).session
    old = msgspec.structs.replace(with_problem(make_request(), 280_000), tells_contract=False)
    assert "#" * 280_000 in compose(old).session, "an older session's prompt stays as it was"


def test_a_long_problem_gets_the_room_that_the_model_s_context_has(make_request) -> None:
    long = msgspec.structs.replace(with_problem(make_request(), 280_000), grows_with_context=True)
    assert "#" * 280_000 in compose(long, context=200_000, answer=32_000).session
    with pytest.raises(InputError, match=r"room for 40,000: .* write the model's `context` into prices.toml"):
        compose(long)
    with pytest.raises(InputError, match=r"room for 40,000: .* need, or use"):
        compose(msgspec.structs.replace(long, grows_with_context=False), context=200_000, answer=32_000)
    with pytest.raises(InputError, match=r"room for \d\d,\d+ in the model's context of 128,000: .* a larger context"):
        compose(long, context=128_000, answer=32_000)
    longest = msgspec.structs.replace(with_problem(make_request(), 500_000), grows_with_context=True)
    with pytest.raises(InputError, match=r"room for 120,000: take out of the problem file .* need, or use"):
        compose(longest, context=1_000_000, answer=32_000)


class NoBus:
    async def publish(self, envelope: Envelope) -> int:
        raise AssertionError("a session was opened")


async def test_a_problem_too_long_for_an_author_s_prompt_opens_no_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-0123456789-of-this-test")
    long = given.problem(source=given.SOURCE + "#" * 280_000)
    on = (long, given.facts(), given.pool(), given.hardware())
    server = {"model": "openai=small", "base_url": "http://localhost:1/v1"}
    for synthesizer in ("openai", "generator,anthropic,openai:2"):
        options = SearchOptions(synthesizer=synthesizer, **server)
        sentence = r"author openai cannot be asked \(small\): the problem file .* takes about 93,\d+ tokens .* 40,000: "
        with pytest.raises(InputError, match=sentence):
            await open_session(NoBus(), "s", *on, options, home=tmp_path)
    (tmp_path / "prices.toml").write_text('[models]\n"small" = { input = 0, output = 0, context = 200_000 }\n')
    with pytest.raises(AssertionError, match="a session was opened"):
        await open_session(NoBus(), "s", *on, options, home=tmp_path)


def test_a_parent_is_cut_to_the_room_and_that_is_said(make_request) -> None:
    source = "import torch\n" + "# first\n" * 3_000 + "# last\n" * 3_000
    parent = Attempt(node="n5", source=source, verdict=Verdict.crash, diagnostics="d" * 9_000, evidence="e" * 9_000)
    plan = NodePlanned(parent="n5", intent=Intent.repair, memory=MemoryOperator.inherit)
    request = make_request(plan=plan, lineage=(parent,), tells_contract=True)
    assert source.strip() in compose(request).step
    for tokens in (8_000, 2_000, 600):
        step = compose(request, step_tokens=tokens).step
        assert estimated_tokens(step.split("Left out for lack of room")[0]) <= tokens
        assert "characters left out …]" in step and "import torch" in step and "Repair node n5" in step
    assert "# last" in compose(request, step_tokens=2_000).step
    with pytest.raises(InputError, match="the task with its parent takes about"):
        compose(request, step_tokens=50)


async def test_who_is_asked_for_too_much_answers_why_and_nobody_is_asked(ask, server, make_request) -> None:
    answer = await ask().backend.synthesize(with_problem(make_request(), 280_000))
    assert answer.failed is not None and not answer.failed.retryable and not server.requests
    assert answer.failed.reason.startswith("claude-test: the problem file with its facts and the machine's takes about")
