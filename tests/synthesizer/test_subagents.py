"""Sub-agents of an author, over the real libraries to a server on loopback: what they are asked, answer and cost."""

import json
from collections.abc import Callable

import pytest
from model_server import Failed, ModelServer, Said
from msgspec.structs import replace

from kernelswarm.agents.synthesizer.backend import Attempt
from kernelswarm.agents.synthesizer.model.desk import DeskError
from kernelswarm.agents.synthesizer.model.prompt import compose
from kernelswarm.agents.synthesizer.model.spending import Ledger, Limits
from kernelswarm.agents.synthesizer.model.subagents import memory_question, note_of
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.schemas import (
    InputError,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodePlanned,
    RoleDecided,
    RoleModel,
    ToolCalled,
    Verdict,
    encode,
)

FILE = "import torch\n\ndef kernel(x):\n    return x * 2\n"


class Desk:
    """Nobody checks here, and the log is empty."""

    async def check(self, source, *, compile_only):
        raise DeskError("nobody checks")

    async def assembly(self, node):
        return "nothing"

    async def ask(self, question, values):
        return "nothing yet"


KEY = "sk-test-0123456789-secret"
SUBMIT = Said(tools=(("submit", {"source": FILE}),))


@pytest.fixture
def work(server, ask, make_request, replayed, tmp_path):
    """Let an author with sub-agents work on a node; the answer."""

    async def play(
        *script: Said | Failed,
        memory: MemoryOperator = MemoryOperator.combine,
        names=("deep_search",),
        siblings=0,
        refusal="",
    ):
        server.script = list(script)
        asked, ledger = ask(), Ledger()

        async def open_client(name: str, record: Callable[[ModelCalled], None]):
            if refusal:
                raise InputError(refusal)
            return await asked.backend.open_client(
                *("claude-sub", "", tmp_path, record),
                admit=lambda price, prompt, answer: ledger.reserved(Limits(), price, prompt, answer),
            )

        tried = tuple(
            Attempt(node=f"n{n:03d}", source=f"S = {n}", rationale="idea", verdict=Verdict.correct, fitness=1 + n / 10)
            for n in range(1, siblings + 2)
        )
        plan = NodePlanned(parent="n001", intent=Intent.improve, memory=memory)
        request = make_request(plan=plan, lineage=tried[:1], siblings=tried[1:], tried=tried)
        subagents = tuple(RoleModel(role=name, backend="anthropic", model="claude-sub") for name in names)
        around = Surroundings(Desk(), tmp_path, Limits(), subagents, open_client, ledger)
        answer = await asked.backend.converse(request, around)
        await replayed(answer, request, subagents)
        return request, ledger, answer

    return play


def by(answer, kind, role):
    return [record for record in answer.records if isinstance(record, kind) and getattr(record, "role", "") == role]


async def test_a_deep_search_reads_in_its_own_conversation_and_answers_with_sources(work, server: ModelServer):
    _, _, answer = await work(
        Said(tools=(("deep_search", {"question": "How do threads share a loop?"}),)),
        Said(tools=(("search_knowledge", {"question": "threads of a parallel loop OpenMP"}),)),
        Said(tools=(("show_node", {"node": "n001", "part": "source"}),)),
        Said(text="By static chunks (hardware/cpu/openmp.md)."),
        SUBMIT,
    )
    assert answer.candidate is not None
    assert [call.tool for call in by(answer, ToolCalled, "deep_search")] == ["search_knowledge", "show_node"]
    assert len(by(answer, ModelCalled, "deep_search")) == 3
    (result,) = [call.result for call in by(answer, ToolCalled, "") if call.tool == "deep_search"]
    assert "By static chunks (hardware/cpu/openmp.md)." in result
    own = [tool.get("name") or tool["function"]["name"] for tool in server.requests[1]["tools"]]
    assert own == ["search_knowledge", "read_document", "show_node", "history"]
    assert "deep search" in json.dumps(server.requests[1]) and "threads of a parallel" not in json.dumps(
        server.requests[-1]
    ), "its conversation is its own"
    kinds = [(type(record), getattr(record, "role", "")) for record in answer.records]
    at = kinds.index((ToolCalled, ""))
    assert (ModelCalled, "deep_search") in kinds[:at], "what it took stands before what the author was answered"


async def test_deep_searches_are_bounded_and_may_fail(work):
    asking = Said(tools=(("deep_search", {"question": "q"}),))
    _, _, answer = await work(
        *(asking, Failed(404, "not_found_error", "no such model")),
        *(asking, Said(text="")),
        *(asking, *[Said(tools=(("history", {"question": "this_session"}),))] * 6),
        *(asking, SUBMIT),
    )
    results = [call.result for call in by(answer, ToolCalled, "") if call.tool == "deep_search"]
    assert "the deep search failed" in results[0] and "has no model" in results[0]
    assert "ended without an answer" in results[1] and "ended without an answer" in results[2]
    assert "no deep searches are left" in results[3]
    assert answer.candidate is not None


@pytest.mark.parametrize(
    ("memory", "names"), [(MemoryOperator.clean_slate, ("deep_search",)), (MemoryOperator.combine, ())]
)
async def test_the_memory_operator_and_the_session_switch_them(work, server, memory, names):
    await work(SUBMIT, memory=memory, names=names)
    tools = [tool.get("name") or tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert "deep_search" not in tools and len(server.bodies) == 1


async def test_a_context_memory_condenses_what_the_step_is_told(work, server):
    request, ledger, answer = await work(
        Said(text="n003 won by fusing; wider vectors failed."), SUBMIT, names=("context_memory",), siblings=5
    )
    (called,) = by(answer, ModelCalled, "context_memory")
    (decided,) = by(answer, RoleDecided, "context_memory")
    assert decided.by_model and decided.reason == "5 attempts condensed"
    assert called.model == "claude-sub" and memory_question(request) in json_texts(server.requests[0])
    asked = json_texts(server.requests[1])
    assert "n003 won by fusing" in asked and "What else was tried" not in asked
    prompt = compose(request, condensed=note_of([called]))
    assert prompt.step in asked and prompt.session in asked, "the same prompt follows from what is recorded"
    assert len(ledger._own) == len(answer.calls)


@pytest.mark.parametrize("reply", [Said(text=""), Failed(401, "authentication_error", f"bad {KEY}")])
async def test_without_a_note_the_step_is_told_everything(work, server, reply):
    _, _, answer = await work(reply, SUBMIT, names=("context_memory",), siblings=5)
    (decided,) = by(answer, RoleDecided, "context_memory")
    assert not decided.by_model and (decided.reason or decided.fault)
    assert "What else was tried" in json_texts(server.requests[1]) and answer.candidate is not None
    assert all(KEY.encode() not in encode(record) for record in answer.records)


async def test_a_context_memory_without_a_key_is_in_the_log(work, server):
    _, _, answer = await work(SUBMIT, names=("context_memory",), siblings=5, refusal="set ANTHROPIC_API_KEY")
    (decided,) = by(answer, RoleDecided, "context_memory")
    assert (decided.backend, decided.model) == ("anthropic", "claude-sub")
    assert not decided.by_model and decided.fault == "set ANTHROPIC_API_KEY"
    assert "What else was tried" in json_texts(server.requests[0]) and answer.candidate is not None


async def test_a_short_trajectory_is_not_condensed(work, server):
    await work(SUBMIT, names=("context_memory",), siblings=2)
    assert len(server.bodies) == 1


async def test_the_counters_of_a_node_are_shown(server, ask, make_request):
    tried = (Attempt(node="n001", source="S = 1", verdict=Verdict.correct, counters={"cache_misses": 12345.0}),)
    server.script = [Said(tools=(("show_node", {"node": "n001", "part": "counters"}),)), SUBMIT]
    request = replace(make_request(), tried=tried)
    answer = await ask().backend.converse(request, Surroundings(desk=Desk()))
    assert "cache_misses = 12345" in by(answer, ToolCalled, "")[0].result


def json_texts(body: dict) -> str:
    """Every text of a request, as it was before it was JSON."""

    def texts(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for item in inner for text in texts(item)]

    return "\n\n".join(texts(body))
