"""The MCP server: what outside authors do, as tools for coding agents. A connection for each call, so it outlives
sessions."""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, ValidationError

from ..graph.tasks import MINUTES
from ..hardware.languages.assembly import excerpts
from ..schemas import KernelswarmError, Schema
from ..sessions.outside.brief import agent_brief
from ..sessions.outside.client import OutsideAuthor, candidate_text
from ..sessions.outside.joining import Reader, outside_author, session_reader
from ..sessions.outside.research import Question
from .compiling import compiled

BRIEF_URI = "kernelswarm://brief"

INSTRUCTIONS = """\
Kernelswarm judges kernels that you write. Loop: claim a task, write one self-contained Python file, check it, submit
it, read the verdict, claim the next. Call `brief` first: it tells the rules and shows a complete file in each
language. Every answer is measured; nothing you say about a kernel counts, only what it does.
"""

MOST_WAIT_S = 600.0

COMMANDS = {"list": "list_tasks", "show": "show_node"}
"""Tools with another name than their command under ``kernelswarm tasks``."""

_COMMAND = re.compile(r"`kernelswarm tasks (\w+)([^`]*)`")

SENTENCES = {"reason", "detail", "notes"}
"""Fields of answers with sentences that may name commands."""

Task = Annotated[str, Field(description="SESSION/NODE, as list_tasks gives it; a lease will do.")]
Lease = Annotated[str, Field(description="SESSION/NODE/N, as claim gives it.")]
Source = Annotated[str, Field(description="The whole candidate file: self-contained Python, native code as strings.")]
Wait = Annotated[float, Field(ge=0, le=MOST_WAIT_S, description="Seconds to wait; your client may allow 60.")]


class Tools:
    """The tools, for sessions on ``home`` or on the cluster at ``nats``."""

    def __init__(self, home: Path, nats: str, agent: str) -> None:
        self._home, self._nats, self._agent = home, nats, agent

    @property
    def functions(self) -> Sequence[Callable[..., Awaitable[Any]]]:
        """Every tool; its docstring is what agents read."""
        return (
            self.brief,
            self.list_tasks,
            self.claim,
            self.show_task,
            self.compile,
            self.check,
            self.submit,
            self.release,
            self.finish,
            self.leaderboard,
            self.show_node,
            self.search_knowledge,
            self.read_document,
            self.history,
        )

    async def brief(self) -> str:
        """How to work: rules, the loop, and a complete candidate file in each language. Read it once, first."""
        return agent_brief()

    async def list_tasks(self, session: str = "") -> dict[str, Any]:
        """List tasks of open sessions (or of one): which are free, who holds which, what became of the others."""
        async with self._reader(session) as reader:
            return {"tasks": msgspec.to_builtins(await reader.tasks(session))}

    async def claim(
        self,
        task: Annotated[
            str,
            Field(
                description="SESSION/NODE, or SESSION for its newest free task, or empty for any; a lease renews it."
            ),
        ] = "",
        minutes: Annotated[float, Field(gt=0, description="How long the lease lasts; checks renew it.")] = MINUTES,
        wait_seconds: Wait = 0.0,
        agent: Annotated[str, Field(description="Your name, for people.")] = "",
    ) -> dict[str, Any]:
        """Claim a task: lease, reference, shapes, machine, baselines, parent, advice; show_node has long sources."""
        deadline = time.monotonic() + wait_seconds
        async with self._author(agent, task, wait_seconds) as author:
            left = max(0.0, deadline - time.monotonic())
            return _plain(await author.claim(task, minutes=minutes, wait_s=left))

    async def show_task(self, task: Task, wait_seconds: Wait = 0.0) -> dict[str, Any]:
        """Show a task: its brief while nothing was handed in, then the verdict. Use it to wait for one."""
        async with self._reader(task) as reader:
            answer = await reader.answer(task, wait_s=wait_seconds)
            return _plain(await reader.brief(task) if answer.state == "waiting" else answer)

    async def compile(
        self,
        source: Source,
        pool: Annotated[str, Field(description="Name of a pool, as `pool` of a claim. Its device need not be here.")],
        assembly: Annotated[bool, Field(description="Its machine code as well, innermost loops first.")] = False,
    ) -> dict[str, Any]:
        """Compile a draft with the toolchain here: messages, registers, spills, shared memory. No lease, no limit."""
        with _as_tool_errors():
            report, texts = await compiled(
                candidate_text(source), pool, self._home, origin="source", with_assembly=assembly
            )
        return {**_plain(report), **({"assembly": excerpts(texts)} if assembly else {})}

    async def check(self, lease: Lease, source: Source) -> dict[str, Any]:
        """Compile a draft and try it on small inputs, untimed. A lease permits a few; use it before you submit."""
        async with self._author(about=lease) as author:
            return _plain(await author.check(lease, source))

    async def submit(
        self,
        lease: Lease,
        source: Source,
        rationale: Annotated[str, Field(description="Why it should be faster, in a sentence or two.")] = "",
        wait_seconds: Wait = 45.0,
    ) -> dict[str, Any]:
        """Hand the file in: verdict, evidence, speedup, diagnosis, advice. If it is still `judging`, call show_task."""
        async with self._author(about=lease) as author:
            return _plain(await author.submit(lease, source, rationale, wait_s=wait_seconds))

    async def release(self, lease: Lease) -> dict[str, Any]:
        """Give a task back, for others to claim."""
        async with self._author(about=lease) as author:
            return _plain(await author.release(lease))

    async def finish(
        self, session: Annotated[str, Field(description="SESSION.")], wait_seconds: Wait = 0.0
    ) -> dict[str, Any]:
        """End a session: nothing more comes, the best is confirmed. Only if whoever gave you the session wants that."""
        async with self._reader(session) as reader:
            return _plain(await reader.finish(session, wait_s=wait_seconds))

    async def leaderboard(self, session: Annotated[str, Field(description="SESSION.")]) -> dict[str, Any]:
        """Rank a session's candidates, whoever wrote them; also of a session that has ended."""
        async with self._reader(session) as reader:
            return _plain(await reader.leaderboard(session))

    async def show_node(
        self,
        node: Annotated[str, Field(description="SESSION/NODE.")],
        assembly: Annotated[bool, Field(description="Its machine code as well, innermost loops first.")] = False,
    ) -> dict[str, Any]:
        """Show a node whole: source, verdict, times, diagnosis, compiler messages; on request its machine code."""
        async with self._reader(node) as reader:
            answer = _plain(await reader.answer(node))
            return {**answer, "assembly": await reader.assembly(node)} if assembly else answer

    async def search_knowledge(self, task: Task, question: str) -> dict[str, Any]:
        """Search the documents on the task's chip, language and operators. read_document gives the text."""
        async with self._author() as author:
            return {"documents": msgspec.to_builtins(await author.search_knowledge(task, question))}

    async def read_document(self, task: Task, path: str) -> str:
        """Read a document whole, by the path that search_knowledge gives."""
        async with self._author() as author:
            return await author.read_document(task, path)

    async def history(
        self,
        question: Question,
        operator: Annotated[str, Field(description="For tried_on_operator: a word of it, as softmax.")] = "",
        session: Annotated[str, Field(description="For this_session: SESSION, or a task or lease of it.")] = "",
    ) -> dict[str, Any]:
        """Ask what this session tried, or of all sessions what like operators had, what helped, why candidates fail."""
        async with self._author() as author:
            return _plain(await author.history(question, operator, session))

    @asynccontextmanager
    async def _reader(self, session: str) -> AsyncIterator[Reader]:
        """Who reads ``session``, which may have ended; without one, the sessions that run."""
        if not session:
            async with self._author() as author:
                yield author
            return
        with _as_tool_errors():
            async with session_reader(self._home, self._nats) as reader:
                yield reader

    @asynccontextmanager
    async def _author(self, agent: str = "", about: str = "", wait_s: float = 0.0) -> AsyncIterator[OutsideAuthor]:
        name = agent or self._agent
        with _as_tool_errors():
            async with outside_author(self._home, self._nats, name, about=about, wait_s=wait_s) as author:
                yield author


class _Server(MCPServer[Any]):
    """Says in a sentence which arguments a tool has, where the SDK quotes its validator."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; errors as the SDK's."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            (schema,) = [tool.input_schema for tool in await self.list_tools() if tool.name == name]
            raise ToolError(_wrong_arguments(name, arguments, schema["properties"], error.__cause__)) from None


def _wrong_arguments(
    tool: str, arguments: dict[str, Any], properties: dict[str, dict[str, Any]], error: ValidationError
) -> str:
    wrong = [f"it has no {name!r}" for name in arguments if name not in properties]
    for fault in error.errors(include_url=False):
        name = str(fault["loc"][0])
        described = f" ({text.rstrip('.')})" if (text := properties.get(name, {}).get("description", "")) else ""
        missing = fault["type"] == "missing"
        wrong.append(f"it needs {name!r}{described}" if missing else f"{name!r}{described}: {fault['msg']}")
    return f"arguments of {tool}: {'; '.join(wrong)}. It takes {', '.join(properties)}"


def mcp_server(home: Path, nats: str, agent: str) -> MCPServer[Any]:
    """The server with its tools and the brief as a resource; it connects to sessions call by call."""
    server = _Server("kernelswarm", instructions=INSTRUCTIONS, version=version("kernelswarm"), log_level="WARNING")
    for function in Tools(home, nats, agent).functions:
        server.add_tool(function)
    server.resource(BRIEF_URI, title="How to write kernels for kernelswarm", mime_type="text/markdown")(agent_brief)
    return server


def _plain(value: Schema) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    for field in SENTENCES & plain.keys():
        sentences = plain[field]
        plain[field] = in_tools(sentences) if isinstance(sentences, str) else [*map(in_tools, sentences)]
    return plain


@contextmanager
def _as_tool_errors() -> Iterator[None]:
    try:
        yield
    except KernelswarmError as error:
        raise ToolError(in_tools(str(error))) from error


def in_tools(text: str) -> str:
    """``text`` for somebody who has tools: it names them and their arguments where it names commands and options."""
    text = _COMMAND.sub(lambda match: f"`{COMMANDS.get(match[1], match[1])}{match[2]}`", text)
    return text.replace(" --json", "").replace("--wait ", "wait_seconds=").replace("--wait", "wait_seconds")
