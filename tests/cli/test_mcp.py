"""MCP: the SDK's own client over stdio and HTTP, the real server, a real bus, and a session that is really served."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import brief
import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver.exceptions import ToolError
from waiting import LIMIT_S, LONG_S, within

import given
from kernelswarm.bus import embedded
from kernelswarm.cli.mcp_http import HttpServer
from kernelswarm.cli.mcp_server import BRIEF_URI, Tools, in_tools, mcp_server
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import InputError, KnowledgeRetrieved
from kernelswarm.sessions.outside.brief import agent_brief
from kernelswarm.sessions.recorded_session import read_session
from kernelswarm.sessions.replay import replay
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions

PLAIN = "import torch\n\n\ndef kernel(x, w):\n    return torch.nn.functional.rms_norm(x, w.shape, w, 1e-6)\n"
WRONG = PLAIN.replace("1e-6", "1e-1")
COMMAND = ["-m", "kernelswarm.cli", "mcp"]
TOOLS = {
    *("brief", "list_tasks", "claim", "show_task", "compile", "check", "submit", "release", "finish", "leaderboard"),
    *("show_node", "search_knowledge", "read_document", "history"),
}
TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (tmp_path / "small.py").write_text(given.SOURCE)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "KERNELSWARM_HOME": str(home), "KERNELSWARM_MCP_TOKEN": TOKEN, "KERNELSWARM_NATS": ""}


def stdio(home: Path, agent: str) -> Client:
    """A client that starts the server as a coding agent does."""
    server = StdioServerParameters(command=sys.executable, args=[*COMMAND, "--agent", agent], env=environment(home))
    return Client(server)


@asynccontextmanager
async def http(home: Path, *arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The server on a free port of this machine, and its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *COMMAND, "--http", "0", *arguments),
        env=environment(home),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = (await within(process.stderr.readline())).decode()
        yield re.search(r"http://\S+", line)[0], process  # type: ignore[index]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def over_http(url: str, token: str = TOKEN) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT_S) as connection,
        Client(streamable_http_client(url, http_client=connection)) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers; its sentence, where it refuses."""
    result = await within(client.call_tool(tool, arguments), LONG_S)
    text = result.content[0].text  # type: ignore[union-attr]
    if result.is_error:
        raise InputError(text)
    return result.structured_content or json.loads(text)


async def test_agents_over_stdio_and_http_work_one_session_to_its_end(home: Path) -> None:
    options = SearchOptions(budget=2, synthesizer="outside", policy_options={"finalists": 1})
    with brief.measurements():
        async with searching(load_problem(home / "small.py"), "bare", options, home=home) as search:

            async def follow() -> None:
                async for _ in search.events():
                    pass

            following = asyncio.create_task(follow())
            async with stdio(home, "alice") as alice, http(home, "--agent", "bob") as (url, _), over_http(url) as bob:
                assert {tool.name for tool in (await alice.list_tools()).tools} == TOOLS
                resource = await bob.read_resource(BRIEF_URI)
                assert resource.contents[0].text == agent_brief()  # type: ignore[union-attr]
                mine = await call(alice, "claim", wait_seconds=60)
                theirs = await call(bob, "claim", task=search.session, wait_seconds=60)
                assert {mine["task"], theirs["task"]} == {f"{search.session}/n001", f"{search.session}/n002"}
                assert mine["write"].startswith("def kernel(x, w)") and mine["reference"] == given.SOURCE
                rows = (await call(bob, "list_tasks"))["tasks"]
                assert {row["agent"] for row in rows} == {"alice", "bob"}

                checked = await call(alice, "check", lease=mine["lease"]["lease"], source=WRONG)
                assert checked["verdict"] == "wrong_numbers" and checked["evidence"]["seed"] is None
                documents = await call(alice, "search_knowledge", task=mine["task"], question="vector width")
                assert documents["documents"]
                path = documents["documents"][0]["path"]
                text = await within(alice.call_tool("read_document", {"task": mine["task"], "path": path}))
                assert text.content[0].text.startswith("# ")  # type: ignore[union-attr]
                assert (await call(bob, "history", question="why_candidates_fail"))["columns"]

                report = await call(bob, "compile", source=PLAIN, pool=theirs["pool"])
                assert report["ok"] and not report["diagnostics"]
                with pytest.raises(InputError, match="claim again, with wait_seconds"):
                    await call(bob, "claim", task=search.session)

                wrong = await call(bob, "submit", lease=theirs["lease"]["lease"], source=WRONG, wait_seconds=0)
                assert wrong["accepted"]
                judged = await call(bob, "show_task", task=theirs["task"], wait_seconds=300)
                assert judged["verdict"] == "wrong_numbers" and judged["summary"]
                right = await call(alice, "submit", lease=mine["lease"]["lease"], source=PLAIN, wait_seconds=300)
                assert right["answer"]["correct"] and right["answer"]["speedup"]["median"] > 0
                board = await call(bob, "leaderboard", session=search.session)
                assert board["places"][0]["author"] == "alice"
                assert (await call(bob, "show_node", node=mine["task"]))["source"] == PLAIN
                with pytest.raises(InputError, match="this_session needs the session"):
                    await call(bob, "history", question="this_session")
                tried = await call(bob, "history", question="this_session", session=search.session)
                assert {row[0]: row[3] for row in tried["rows"]} == {
                    mine["task"].partition("/")[2]: "correct",
                    theirs["task"].partition("/")[2]: "wrong_numbers",
                }
                with pytest.raises(InputError, match="nothing of its file is compiled ahead"):
                    await call(bob, "show_node", node=mine["task"], assembly=True)
                with pytest.raises(InputError, match="there is no session 'nowhere'"):
                    await call(bob, "claim", task="nowhere")
            await within(following, LONG_S)
    recorded = await read_session(home, search.session, verify=True)
    assert replay(search.session, recorded.events).status == "closed"
    assert any(isinstance(envelope.event(), KnowledgeRetrieved) for _, envelope in recorded.events)


async def test_without_a_search_a_tool_says_how_to_start_one_and_the_server_lives_on(home: Path) -> None:
    async with stdio(home, "alice") as alice:
        for _ in range(2):
            with pytest.raises(InputError, match=r"no search is running .* `kernelswarm optimize PROBLEM"):
                await call(alice, "claim")
        sentence = "arguments of show_node: it has no 'task'; it needs 'node' (SESSION/NODE). It takes node, assembly"
        with pytest.raises(InputError, match=re.escape(sentence)):
            await call(alice, "show_node", task="s/n001")
        with pytest.raises(InputError, match=r"'wait_seconds' .*: Input should be less than or equal to 600\. "):
            await call(alice, "claim", wait_seconds=601)


async def test_a_draft_is_compiled_for_a_pool_without_a_search(home: Path) -> None:
    tools, cpp = Tools(home, "", "me"), (agent_brief().split("```python\n")[2]).partition("```")[0]
    report = await tools.compile(cpp, "bare", assembly=True)
    assert report["ok"] and "rms_norm" in report["assembly"]
    report = await tools.compile(cpp.replace("float sum = 0.0f;", "float sum = 0.0f"), "bare")
    assert not report["ok"] and report["diagnostics"][0]["line"]
    assert (await tools.compile(PLAIN, "bare", assembly=True))["assembly"] == ""
    for source, pool, sentence in ((cpp, "nowhere", "nowhere"), (" ", "bare", "the candidate is empty")):
        with pytest.raises(ToolError, match=sentence):
            await tools.compile(source, pool)


@pytest.mark.parametrize(
    ("sentence", "in_words"),
    [
        ("`kernelswarm tasks list` shows what there is", "`list_tasks` shows what there is"),
        ("claim again, with --wait", "claim again, with wait_seconds"),
        ("`kernelswarm tasks show s/n001 --json` has it", "`show_node s/n001` has it"),
        ("`kernelswarm tasks finish s --wait 300` waits", "`finish s wait_seconds=300` waits"),
        ("`kernelswarm optimize PROBLEM --author outside`", "`kernelswarm optimize PROBLEM --author outside`"),
    ],
)
def test_sentences_name_tools_and_their_arguments(sentence: str, in_words: str) -> None:
    assert in_tools(sentence) == in_words


async def test_a_claim_waits_for_a_search_to_start_too(home: Path) -> None:
    claim = asyncio.create_task(Tools(home, "", "me").claim(wait_seconds=8.0))
    async with embedded(home):
        with pytest.raises(ToolError, match="no open session waits for outside authors"):
            await within(claim)


async def test_http_wants_its_token_and_ends_with_a_signal(home: Path) -> None:
    async with http(home) as (url, process):
        assert url.startswith("http://127.0.0.1:")
        async with httpx2.AsyncClient() as connection:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"bearer {TOKEN}x"}):
                answer = await connection.post(url, json={}, headers=headers)
                assert answer.status_code == 401 and "Authorization: Bearer TOKEN" in (error := answer.json()["error"])
                assert "KERNELSWARM_MCP_TOKEN" in error
            headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
            assert (await connection.post(url, json={}, headers=headers)).status_code in (403, 421)
        process.send_signal(signal.SIGINT)
        assert await within(process.wait()) in (0, 130)


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:x", "1.2.3.4:99999", "203.0.113.7:0"])
def test_an_address_that_nothing_can_listen_at_is_named(home: Path, address: str) -> None:
    with pytest.raises(InputError, match="--http"):
        HttpServer(mcp_server(home, "", "x"), address, TOKEN)
