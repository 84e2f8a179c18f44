"""Tools of a conversation: given what the model wants called, when it is called, then this is answered and recorded."""

import json

import msgspec
import pytest
from model_server import Failed, Said

from kernelswarm.agents.synthesizer.backend import Attempt
from kernelswarm.agents.synthesizer.model.desk import Checked, DeskError
from kernelswarm.agents.synthesizer.model.spending import Ledger, Limits
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.agents.synthesizer.model.toolbox import NODE_LIMITS
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.schemas import (
    CONTIGUOUS,
    CompileReport,
    Diagnostic,
    Evidence,
    KernelResources,
    KnowledgeRetrieved,
    ModelCalled,
    ToolCalled,
    Verdict,
    VerifyReport,
    encode,
)

FILE = "import torch\n\ndef kernel(x):\n    return x * 2\n"


class Desk:
    """Answers as a checker would, and keeps what it was asked."""

    def __init__(self, verified: VerifyReport | None = None, error: str = "", ok: bool = True) -> None:
        kernels = (KernelResources(name="scale", registers=40, spill_bytes=16, shared_bytes=1024),)
        problems = () if ok else (Diagnostic(severity="error", line=3, column=1, message="no ;"),)
        self._compiled = CompileReport(ok=ok, language="cpp", compiler="g++", kernels=kernels, diagnostics=problems)
        self._verified, self._error = verified, error
        self.asked: list[object] = []

    async def check(self, source, *, compile_only):
        self.asked.append((source, compile_only))
        if self._error:
            raise DeskError(self._error)
        return Checked(compiled=self._compiled, verified=None if compile_only else self._verified)

    async def assembly(self, node):
        self.asked.append(node)
        return "# innermost loop of scale: 3 lines"

    async def ask(self, question, values):
        self.asked.append((question, dict(values)))
        return "What has been tried?\nproblem, wins\ndouble, 3"


@pytest.fixture
def converse(server, ask, make_request, replayed):
    """Play a script of tool calls, then hand in; the answer and what the model was told in the last request."""

    async def play(*calls, desk=None, request=None, limits=None, script=None, **settings):
        turns = [Said(tools=(call,)) for call in calls]
        server.script = script or [*turns, Said(tools=(("submit", {"source": FILE, "idea": "Twice."}),))]
        around = Surroundings(desk=desk or Desk(), limits=limits or Limits(), ledger=Ledger())
        asked = request or make_request()
        answer = await ask(**settings).backend.converse(asked, around)
        await replayed(answer, asked)
        return answer

    return play


def tools_of(answer) -> list[ToolCalled]:
    return [record for record in answer.records if isinstance(record, ToolCalled)]


async def test_a_file_is_handed_in_with_submit(converse, server, vendor):
    answer = await converse()
    assert answer.candidate.source == FILE and answer.candidate.rationale == "Twice."
    assert len(server.bodies) == 1, "handing in ends the conversation"
    (call,) = tools_of(answer)
    assert (call.tool, call.result, call.failed, call.backend) == ("submit", "handed in", False, vendor)
    assert json.loads(call.arguments)["source"] == FILE
    assert json.loads(answer.calls[0].tool_calls)[0] == {
        "id": call.call,
        "name": "submit",
        "arguments": call.arguments,
    }


async def test_tools_are_offered_typed_and_few(converse, server):
    await converse()
    names = [tool.get("name") or tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert names == ["search_knowledge", "read_document", "show_node", "history", "compile", "check", "submit"]


async def test_results_go_back_with_what_is_left(converse, server):
    answer = await converse(
        ("check", {"source": FILE}), desk=Desk(VerifyReport(verdict=Verdict.correct, isolation="p"))
    )
    check = tools_of(answer)[0]
    assert "It compiles." in check.result and "40 registers, 16 bytes spilled" in check.result
    assert "On small inputs: correct." in check.result
    assert check.result.endswith("[13 turns and 4 checks left; hand in with submit]")
    assert check.result in json.dumps(server.requests[1], ensure_ascii=False).encode().decode("unicode_escape")


async def test_records_stand_in_the_order_of_what_happened(converse):
    answer = await converse(("search_knowledge", {"question": "threads of a parallel loop"}))
    kinds = [type(record) for record in answer.records]
    assert kinds == [KnowledgeRetrieved, ModelCalled, KnowledgeRetrieved, ToolCalled, ModelCalled, ToolCalled]
    assert [record.by for record in answer.records if isinstance(record, KnowledgeRetrieved)] == [
        "prompt",
        "search_knowledge",
    ]
    for record in answer.records:
        encode(record)


async def test_knowledge_is_found_and_read_by_path(converse):
    answer = await converse(
        ("search_knowledge", {"question": "threads of a parallel loop OpenMP"}),
        ("read_document", {"path": "hardware/cpu/openmp.md"}),
        ("read_document", {"path": "hardware/nvidia/tma.md"}),
    )
    found, read, elsewhere = (call.result for call in tools_of(answer)[:3])
    assert "hardware/cpu/openmp.md: OpenMP without losing time" in found
    assert "# OpenMP without losing time" in read
    assert "no document 'hardware/nvidia/tma.md' is there for pool cpu" in elsewhere


async def test_nodes_and_history_are_shown(converse, make_request):
    tried = (
        Attempt(node="n001", source="ONE = 1", rationale="the first", verdict=Verdict.correct, fitness=1.2),
        Attempt(node="n002", source="TWO = 2", verdict=Verdict.compile_error, diagnostics="3:1: error: no ;"),
    )
    desk = Desk()
    answer = await converse(
        ("show_node", {"node": "n001"}),
        ("show_node", {"node": "n002", "part": "compiler"}),
        ("show_node", {"node": "n009"}),
        ("show_node", {"node": "n001", "part": "assembly"}),
        ("history", {"question": "this_session"}),
        ("history", {"question": "tried_on_operator", "operator": "mul"}),
        request=make_request(tried=tried),
        desk=desk,
    )
    source, compiler, missing, assembly, session, log = (call.result for call in tools_of(answer)[:6])
    assert "# innermost loop of scale" in assembly and "1.2x" in assembly
    assert "ONE = 1" in source and "1.2x" in source
    assert "3:1: error: no ;" in compiler
    assert "there is no node 'n009'" in missing and "n001, n002" in missing
    assert "idea: the first" in session and "n002: compile_error" in session
    of_platform = {"operator": "mul", "platform": "cpu"}
    assert "double, 3" in log and desk.asked == ["n001", ("tried_on_operator", of_platform)]


async def test_a_wrong_draft_comes_with_its_evidence(converse):
    evidence = Evidence(message="wrong numbers", element=(1, 2), expected="3.0", got="4.0")
    wrong = VerifyReport(verdict=Verdict.wrong_numbers, isolation="p", evidence=evidence)
    answer = await converse(("check", {"source": FILE}), desk=Desk(wrong))
    assert "On small inputs: wrong numbers." in tools_of(answer)[0].result
    assert "at [1, 2] expected 3.0, got 4.0" in tools_of(answer)[0].result


async def test_a_draft_with_limits_is_told_them(converse):
    limited = VerifyReport(verdict=Verdict.correct, isolation="p", limits=(CONTIGUOUS,))
    answer = await converse(("check", {"source": FILE}), desk=Desk(limited))
    assert "right only for contiguous inputs" in tools_of(answer)[0].result


async def test_drafts_get_their_loader_and_a_broken_one_is_not_sent(converse, good):
    desk = Desk(ok=False)
    native = good.split("```python\n")[1].split("```")[0]
    answer = await converse(("compile", {"source": native}), ("compile", {"source": "def ("}), desk=desk)
    assert len(desk.asked) == 1 and LOADER in desk.asked[0][0] and desk.asked[0][1] is True
    first, second = (call.result for call in tools_of(answer)[:2])
    assert "It does not compile." in first and "3:1: error: no ;" in first
    assert "not valid Python" in second and second.endswith("[12 turns and 4 checks left; hand in with submit]")


async def test_checks_are_bounded(converse):
    calls = [("check", {"source": f"{FILE}# {i}\n"}) for i in range(NODE_LIMITS.checks + 1)]
    desk = Desk()
    answer = await converse(*calls, desk=desk)
    assert len(desk.asked) == NODE_LIMITS.checks
    assert tools_of(answer)[NODE_LIMITS.checks].result.startswith("no checks are left: hand in")


async def test_a_missing_checker_is_an_answer(converse):
    answer = await converse(("check", {"source": FILE}), desk=Desk(error="no checker answered"))
    assert answer.candidate is not None and "no checker answered" in tools_of(answer)[0].result


async def test_turns_are_bounded(converse, server):
    calls = [("history", {"question": "this_session"})] * (NODE_LIMITS.turns + 3)
    answer = await converse(*calls)
    assert answer.failed.reason == f"claude-test: no file was handed in within {NODE_LIMITS.turns} turns"
    assert len(server.bodies) == NODE_LIMITS.turns and not answer.failed.retryable


async def test_tokens_of_a_node_are_bounded(converse, server):
    big = Said(tools=(("history", {"question": "this_session"}),), usage={"input": NODE_LIMITS.tokens, "output": 1})
    answer = await converse(script=[big, big])
    assert "tokens (a node has" in answer.failed.reason and len(server.bodies) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (("no_such_tool", {}), "no_such_tool"),
        (("show_node", {}), "node"),
        (("show_node", {"node": 7, "part": "everything"}), "part"),
    ],
)
async def test_a_call_that_cannot_be_carried_out_is_said_and_recorded(converse, call, sentence):
    answer = await converse(call)
    record = tools_of(answer)[0]
    assert record.failed and sentence in record.result and answer.candidate is not None


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_broken_arguments_are_said_and_not_sent_back(converse, server):
    answer = await converse(("show_node", '{"node": '))
    assert tools_of(answer)[0].failed and tools_of(answer)[0].arguments == '{"node": '
    sent = server.requests[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert sent == "{}", "servers refuse a conversation with broken JSON in it"


async def test_a_file_that_was_tried_is_not_accepted_and_another_is(converse, make_request):
    tried = (Attempt(node="n001", source=FILE),)
    other = ("submit", {"source": FILE + "# other\n"})
    answer = await converse(("submit", {"source": FILE}), other, request=make_request(tried=tried))
    assert "not accepted: the file is the same, to the letter, as that of node n001" in tools_of(answer)[0].result
    assert answer.candidate.source == FILE + "# other\n"


async def test_an_answer_in_text_is_as_good(converse, good):
    answer = await converse(script=[Said(tools=(("history", {"question": "this_session"}),)), Said(good)])
    assert answer.candidate is not None and "CPP_SOURCE" in answer.candidate.source


async def test_several_calls_at_once_are_answered_in_order(converse):
    calls = (("history", {"question": "this_session"}), ("submit", {"source": FILE}))
    answer = await converse(script=[Said("First a look.", tools=calls)])
    assert [call.tool for call in tools_of(answer)] == ["history", "submit"]
    assert answer.calls[0].completion == "First a look." and answer.candidate is not None


@pytest.mark.parametrize("vendor", ["anthropic"], indirect=True)
async def test_what_was_thought_goes_back_with_the_results(converse, server):
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    use = {"type": "tool_use", "id": "toolu_0", "name": "history", "input": {"question": "this_session"}}
    await converse(
        script=[Said(blocks=(thinking, use), tools=(("", {}),)), Said(tools=(("submit", {"source": FILE}),))]
    )
    turn, result = server.requests[1]["messages"][-2:]
    assert turn == {"role": "assistant", "content": [thinking, use]}
    assert result["content"][0]["tool_use_id"] == "toolu_0"


async def test_a_model_without_tools_is_asked_for_the_file_alone(converse, server, good):
    refused = Failed(400, "invalid_request_error", "this model does not support tools")
    answer = await converse(script=[refused, Said(good)])
    assert answer.candidate is not None
    assert "tools" in server.requests[0] and "tools" not in server.requests[1]


async def test_the_same_script_asks_the_same_to_the_byte(converse, server):
    for _ in range(2):
        await converse(("search_knowledge", {"question": "stores"}), ("check", {"source": FILE}))
    assert server.bodies[:3] == server.bodies[3:]


async def test_a_key_in_a_tool_s_arguments_never_shows(converse, key):
    answer = await converse(("history", {"question": "this_session", "operator": key}), ("show_node", {"node": key}))
    assert key not in b"".join(encode(record) for record in answer.records).decode()


async def test_a_limit_of_money_is_kept_before_the_request_that_would_pass_it(converse, server, make_request):
    calls = [("history", {"question": "this_session"})] * 8
    usage = {"input": 10_000, "output": 2_000}
    script = [Said(tools=(call,), usage=usage) for call in calls]
    request = make_request(model="claude-opus-5-5")
    answer = await converse(script=script, request=request, limits=Limits(cost=0.40))
    assert answer.failed.exhausted and "--max-cost" in answer.failed.reason
    spent = sum(call.cost for call in answer.calls)
    assert 0.2 < spent <= 0.40 and all(call.price_date for call in answer.calls)
    assert answer.calls[0].cost == pytest.approx(10_000 * 4e-6 + 2_000 * 20e-6)
    limits = [body.get("max_tokens") for body in server.requests]
    assert limits == sorted(limits, reverse=True) and limits[-1] < limits[0], "answers get shorter towards the end"


async def test_a_limit_of_tokens_is_kept(converse, server):
    script = [Said(tools=(("history", {"question": "this_session"}),), usage={"input": 9_000, "output": 1_000})] * 8
    answer = await converse(script=script, limits=Limits(tokens=40_000))
    used = sum(call.input_tokens + call.output_tokens for call in answer.calls)
    assert answer.failed.exhausted and "--max-tokens" in answer.failed.reason and used <= 40_000


async def test_a_limit_that_allows_nothing_asks_nothing(converse, server, make_request):
    answer = await converse(request=make_request(model="claude-opus-5-5"), limits=Limits(cost=0.001))
    assert answer.failed.exhausted and not server.bodies and answer.calls == ()


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_without_a_price_a_limit_of_money_asks_nothing(converse, server, make_request, monkeypatch):
    monkeypatch.setattr("kernelswarm.agents.synthesizer.model.backend.price_of", lambda *_: None)
    answer = await converse(request=make_request(model="unpriced"), limits=Limits(cost=5.0))
    assert "nobody knows what this model costs" in answer.failed.reason and not server.bodies


def test_records_survive_the_wire():
    record = ToolCalled(backend="openai", tool="check", call="c", arguments="{}", result="fine", seconds=1.5)
    assert msgspec.json.decode(encode(record), type=ToolCalled) == record
