"""Keys and tokens reach no event, log line, exception, later request or other address, whatever a server says."""

import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout

import pytest
import structlog
from model_server import Failed, ModelServer, Said
from msgspec.structs import replace

import given
from kernelswarm.agents.runtime import Answer, Histories, Work, Worker
from kernelswarm.agents.synthesizer.backend import Attempt
from kernelswarm.agents.synthesizer.model.desk import DeskError
from kernelswarm.agents.synthesizer.model.settings import Settings
from kernelswarm.agents.synthesizer.model.spending import Ledger, Limits
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.agents.synthesizer.openai import OpenAIBackend
from kernelswarm.bus import Bus, embedded
from kernelswarm.schemas import (
    Event,
    Intent,
    KernelswarmError,
    MemoryOperator,
    NodePlanned,
    RoleModel,
    SessionOpened,
    Verdict,
    encode,
)

FILE = "import torch\n\ndef kernel(x):\n    return x * 2\n"
OTHERS = {
    "OPENAI_ADMIN_KEY": "sk-admin-0123456789",
    "ANTHROPIC_AUTH_TOKEN": "bearer-0123456789-token",
    "KERNELSWARM_MCP_TOKEN": "mcp-token-0123456789",
    "OPENAI_CUSTOM_HEADERS": "X-Team: kernels\nAuthorization: Bearer gateway-0123456789",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Team: kernels\nAuthorization: Bearer gateway-0123456789",
}
SPOKEN = ("sk-admin-0123456789", "bearer-0123456789-token", "mcp-token-0123456789", "gateway-0123456789")


class Desk:
    """Repeats what it is asked."""

    async def check(self, source, *, compile_only):
        raise DeskError(f"cannot check {source[-80:]}")

    async def ask(self, question, values):
        return json.dumps(dict(values))

    async def assembly(self, node):
        return node


@pytest.fixture
def settings(monkeypatch, vendor, server, key) -> Settings:
    """As they are read from an environment full of secrets."""
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    facts = {"anthropic": "ANTHROPIC", "openai": "OPENAI"}[vendor]
    monkeypatch.setenv(f"{facts}_API_KEY", key)
    monkeypatch.setenv(f"{facts}_BASE_URL", server.url)
    from kernelswarm.agents.synthesizer.backend import open_backend

    return open_backend(vendor).settings_for("")


@pytest.fixture
def conversing(ask, make_request, settings, tmp_path):
    """An author with both sub-agents; everything that came of the conversation as one text."""

    async def play(*script: Said | Failed, server: ModelServer) -> str:
        server.script = list(script)
        fields = {name: getattr(settings, name) for name in ("key", "url", "secrets", "withheld")}
        asked, ledger = ask(**fields), Ledger()

        async def open_client(name, record):
            return await asked.backend.open_client(
                *("claude-sub", "", tmp_path, record),
                admit=lambda price, prompt, answer: ledger.reserved(Limits(), price, prompt, answer),
            )

        tried = tuple(
            Attempt(node=f"n{n:03d}", source=f"S = {n}", rationale="idea", verdict=Verdict.correct) for n in range(1, 7)
        )
        plan = NodePlanned(parent="n001", intent=Intent.improve, memory=MemoryOperator.combine)
        request = make_request(plan=plan, lineage=tried[:1], siblings=tried[1:], tried=tried)
        names = ("deep_search", "context_memory")
        subagents = tuple(RoleModel(role=name, backend=settings.vendor.name, model="claude-sub") for name in names)
        around = Surroundings(Desk(), tmp_path, Limits(), subagents, open_client, ledger)
        answer = await asked.backend.converse(request, around)
        events: list[Event] = [*answer.records, *filter(None, (answer.candidate, answer.failed))]
        return b"\n".join(encode(event) for event in events).decode()

    return play


def secrets(key: str) -> Sequence[str]:
    return (key, *SPOKEN)


async def test_what_a_model_repeats_is_in_no_event_and_no_later_request(conversing, server, key):
    said = " ".join(secrets(key))
    searching = (("deep_search", {"question": said}), ("history", {"question": "this_session", "operator": said}))
    text = await conversing(
        *(Said(f"A note: {said}", usage=None), Said(f"Thus {said}", tools=searching)),
        Said(tools=(("history", {"question": "tried_on_operator", "operator": said}), (key, {key: key}))),
        Said(f"Sources: {said}"),
        Said(tools=(("check", {"source": f"{FILE}# {said}"}), ("show_node", {"node": said, "part": "assembly"}))),
        Said(tools=(("submit", {"source": f"{FILE}# {said}", "idea": said}),)),
        server=server,
    )
    assert [secret for secret in secrets(key) if secret in text] == [] and "[key]" in text and "handed in" in text
    assert len(server.bodies) == 6
    bodies = b"\n".join(server.bodies).decode()
    assert [secret for secret in secrets(key) if secret in bodies] == []


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
async def test_what_an_error_repeats_is_in_no_event(conversing, server, key, status):
    failed = Failed(status, f"odd_{key}", " ".join(secrets(key)), headers={"x-should-retry": "false", "x-key": key})
    text = await conversing(failed, failed, server=server)
    assert [secret for secret in secrets(key) if secret in text] == [] and f"({status}" in text


@pytest.mark.parametrize("vendor", ["anthropic"], indirect=True)
async def test_what_a_model_thinks_is_kept_without_secrets(conversing, server, key):
    thinking = {"type": "thinking", "thinking": f"the key is {key}", "signature": f"signed {SPOKEN[0]}"}
    use = {"type": "tool_use", "id": f"toolu_{key}", "name": "history", "input": {"question": "this_session"}}
    text = await conversing(
        *(Said("A note."), Said(blocks=(thinking, use), tools=(("", {}),))),
        Said(tools=(("submit", {"source": FILE}),)),
        server=server,
    )
    assert key not in text and SPOKEN[0] not in text and "the key is [key]" in text


async def test_another_address_gets_no_header_of_the_environment(server, key, monkeypatch, make_request, good):
    """A session from elsewhere names a server: it learns neither key nor token nor whose account this is."""
    elsewhere = server.url.replace("127.0.0.1", "localhost.localdomain")
    for name, value in {**OTHERS, "OPENAI_API_KEY": key, "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "p-1"}.items():
        monkeypatch.setenv(name, value)
    backend = OpenAIBackend()
    settings = replace(backend.settings_for(elsewhere), url=server.url)
    assert settings.key == "" and settings.withheld
    server.script = [Said(good), Said(good)]
    for chosen in (settings, backend.settings_for(server.url)):
        asked = OpenAIBackend(chosen)
        await asked.synthesize(make_request())
        await asked.close()
    there, here = (json.dumps(head) for head in server.heads)
    assert [word for word in (*secrets(key), "org-1", "p-1", "X-Team", "x-team") if word in there] == []
    assert "gateway-0123456789" in here and "org-1" in here


async def test_a_defect_s_error_holds_no_key(ask, make_request, monkeypatch, vendor, key):
    import anthropic  # not while tests are collected: together they take one CPU second in each worker
    import openai

    library = {"anthropic": anthropic.AsyncAnthropic, "openai": openai.AsyncOpenAI}[vendor]

    def broken(*_: object, **__: object) -> None:
        raise LookupError(f"no such header: Bearer {key}")

    monkeypatch.setattr(library, "post", broken)
    monkeypatch.setattr(library, "request", broken)
    with pytest.raises(
        KernelswarmError, match=r"a defect in asking claude-test: LookupError: .*Bearer \[key\]"
    ) as caught:
        await ask().backend.synthesize(make_request())
    assert caught.value.__suppress_context__


class Broken:
    """An agent with a defect, and a key at hand."""

    role = "analyst"
    consumes: tuple[type[Event], ...] = (SessionOpened,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        key = "sk-test-in-a-frame"
        raise LookupError(f"a defect, {len(key)}")

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        return []

    async def close(self) -> None:
        pass


@asynccontextmanager
async def default_logging() -> AsyncIterator[io.StringIO]:
    """structlog as a program has it that never heard of it: it shows the variables of every frame."""
    structlog.reset_defaults()
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        yield shown


async def test_a_traceback_is_logged_without_variables(tmp_path):
    async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as bus, default_logging() as shown:
        envelope = given.envelope_of(given.opened())
        seq = await bus.publish(envelope)
        worker = Worker(Broken(), bus, "cpu", Histories(bus))
        work = Work(envelope, envelope.event(), await worker._folds.at(envelope.session, seq), seq)
        with pytest.raises(KernelswarmError):
            await worker._handle(work, last_try=False)
    assert "a defect, 18" in shown.getvalue() and "sk-test-in-a-frame" not in shown.getvalue()
