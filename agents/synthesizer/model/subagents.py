"""Sub-agents of an author, each with a conversation, a model and limits of its own; both are optional.

*Context memory* condenses a long trajectory into what the next step must know. *Deep search* is asked a question and
reads documents, nodes and the log before it answers. What the node may remember decides (the plan's memory operator): a
clean slate has neither.
"""

import time
from collections.abc import Awaitable, Callable, Sequence

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core.tools import BaseTool
from msgspec.structs import replace

from ....schemas import InputError, MemoryOperator, ModelCalled, RoleDecided, RoleModel, Schema, ToolCalled
from ..backend import Attempt, Record, Request
from . import sections
from .asking import ask
from .client import ModelClient
from .conversation import run_agent
from .faults import ModelFault

CONTEXT_MEMORY, DEEP_SEARCH = "context_memory", "deep_search"

LONG_TRAJECTORY = 4
"""Attempts beside the parent from which on they are condensed."""
NOTE_CHARACTERS = 6_000
ANSWER_CHARACTERS = 8_000

OpenClient = Callable[[str, Callable[[ModelCalled], None]], Awaitable[ModelClient]]
"""From a sub-agent's name to its client; raises InputError where it cannot be asked."""

_MEMORY_SYSTEM = """\
You are the context memory of an engineer who writes kernels. You get what was tried so far for one operator on one
machine. Write down what the next attempt must know, in at most 400 words: what made things faster and by how much, what
failed and why, what is still untried. Name nodes and numbers. Plain sentences; no code but single expressions."""

_SEARCH_SYSTEM = """\
You are the deep search of an engineer who writes kernels. You are asked one question. Look it up with your tools, in
the documents about the machine, in the nodes of this search and in the log of earlier ones, and answer in at most 300
words. Say only what your sources say, and name each one (a document's path, a node, the question to the log) behind
what you have from it. Say so where they do not answer the question."""


class SearchLimits(Schema, frozen=True, kw_only=True):
    """How much one deep search may take."""

    searches: int = 3
    """Of one node."""
    turns: int = 6
    """Answers of the model, the last included."""
    seconds: float = 300.0
    """From the first request on; what is under way then is finished."""


SEARCH_LIMITS = SearchLimits()


def remembers(request: Request) -> bool:
    """Whether the plan's memory operator lets a node look back at all."""
    return request.plan.memory is not MemoryOperator.clean_slate


def trajectory(request: Request) -> Sequence[Attempt]:
    """What a step may remember beside its parent, oldest first."""
    return [*reversed(request.lineage[1:]), *request.siblings]


class SubAgents:
    """The sub-agents of one node's author."""

    def __init__(
        self,
        roles: Sequence[RoleModel],
        open_client: OpenClient,
        record: Callable[[Record], None],
        limits: SearchLimits = SEARCH_LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``roles`` are those that the session has a model for; ``record`` gets every request and call of a tool."""
        self._roles = {role.role: role for role in roles}
        self._open, self._record = open_client, record
        self._limits, self._clock, self._searches = limits, clock, 0

    def has(self, name: str, request: Request) -> bool:
        """Whether ``name`` is at work for ``request``."""
        return name in self._roles and remembers(request)

    async def condensed(self, request: Request) -> str:
        """The trajectory in a few words; empty where it is short, or nobody could condense it."""
        attempts = trajectory(request)
        if not self.has(CONTEXT_MEMORY, request) or len(attempts) < LONG_TRAJECTORY:
            return ""
        calls: list[ModelCalled] = []
        try:
            client = await self._client(CONTEXT_MEMORY, calls)
        except InputError as error:
            # This worker has no key, say: the step is told everything.
            asked = self._roles[CONTEXT_MEMORY]
            self._decided(asked.backend, asked.model, fault=str(error))
            return ""
        fault = await ask(client, _MEMORY_SYSTEM, memory_question(request), _is_empty, 1)
        note = "" if fault else note_of(calls)
        reason = f"{len(attempts)} attempts condensed" if note else "the answer is empty"
        self._decided(client.backend, client.model, by_model=bool(note), reason=reason, fault=fault)
        return note

    def _decided(self, backend: str, model: str, *, by_model: bool = False, reason: str = "", fault: str = "") -> None:
        """Record what became of the context memory's model, as the roles of the ring do."""
        self._record(
            RoleDecided(
                role=CONTEXT_MEMORY, backend=backend, model=model, by_model=by_model, reason=reason, fault=fault
            )
        )

    async def search(self, question: str, tools: Sequence[BaseTool]) -> str:  # type: ignore[type-arg]
        """The answer to ``question`` with its sources, or in a sentence why there is none."""
        if self._searches >= self._limits.searches:
            return "no deep searches are left for this node"
        self._searches += 1
        began = self._clock()

        def record(call: ToolCalled) -> None:
            self._record(replace(call, role=DEEP_SEARCH))
            if self._clock() - began > self._limits.seconds:
                raise _OutOfTime

        try:
            client = await self._client(DEEP_SEARCH, [])
        except InputError as error:
            return f"the deep search cannot be asked: {error}"
        agent = AssistantAgent(
            DEEP_SEARCH,
            model_client=client,
            system_message=_SEARCH_SYSTEM,
            description="",
            tools=list(tools),
            max_tool_iterations=self._limits.turns,
        )
        try:
            text = await run_agent(agent, TextMessage(content=question, source="user"), client, None, record)
        except ModelFault as error:
            return f"the deep search failed: {error.fault.message}"
        except _OutOfTime:
            text = None
        answer = (text or "").strip()
        return answer[:ANSWER_CHARACTERS] or "the deep search ended without an answer"

    async def _client(self, name: str, calls: list[ModelCalled]) -> ModelClient:
        def record(call: ModelCalled) -> None:
            calls.append(replace(call, role=name))
            self._record(calls[-1])

        return await self._open(name, record)


class _OutOfTime(Exception):
    """A deep search has used its seconds."""


def memory_question(request: Request) -> str:
    """What the context memory is asked: the same request gives the same text."""
    attempts = trajectory(request)
    parts = [f"The operator is {request.problem.name}. The next step starts from {request.plan.parent or 'nothing'}."]
    parts += [sections.attempt(attempt) for attempt in attempts]
    return "\n\n".join(parts)


def note_of(calls: Sequence[ModelCalled]) -> str:
    """The note in recorded answers; empty if there is none."""
    return next((call.completion.strip()[:NOTE_CHARACTERS] for call in calls if call.completion.strip()), "")


def _is_empty(answer: str) -> str:
    return "" if answer.strip() else "The answer is empty."
