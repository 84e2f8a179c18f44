"""One conversation with a model: AutoGen's AssistantAgent asks, has tools called, and ends with a file or a reason."""

import time
from collections.abc import Callable

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import (
    MultiModalMessage,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)

from ....schemas import Schema, ToolCalled
from .client import ModelClient
from .extract import ExtractedCandidate, Rejected, candidate_in
from .faults import Fault, ModelFault
from .prompt import Prompt
from .reply import Stop
from .toolbox import Toolbox

FOLLOW_UP = (
    "That cannot be used: {reason}. Send the complete candidate file again, in exactly one ```python block, "
    "with at most two sentences before it and nothing after it."
)
FAILED_ANSWERS = 3
"""Answers in a row whose calls of tools all fail, after which a conversation ends: each is paid for."""
NO_CALLS = (
    "{model}: no call of a tool could be carried out in {answers} answers in a row (their arguments are broken, or "
    "there is no such tool): use another --model"
)
NO_HAND_IN = "no file was handed in within {turns} turns"


class Conversation(Schema, frozen=True, kw_only=True):
    """How a conversation ended."""

    candidate: ExtractedCandidate | None = None
    reason: str = ""
    """Why there is no candidate; empty if there is one."""


async def converse(
    client: ModelClient,
    prompt: Prompt,
    *,
    accept: Callable[[ExtractedCandidate], None],
    toolbox: Toolbox | None = None,
    record: Callable[[ToolCalled], None] = lambda event: None,
    rounds: int = 2,
) -> Conversation:
    """Ask for a candidate: in at most ``rounds`` answers without tools, and as many with tools as ``toolbox`` allows.

    ``accept`` may raise Rejected for a candidate that is of no use. ``record`` gets a ToolCalled for each call of a
    tool, in order, after the answer that wanted it.

    Raises:
        ModelFault: the model could not be asked.
    """
    agent = AssistantAgent(
        "synthesizer",
        model_client=client,
        system_message=prompt.system,
        description="",
        tools=list(toolbox.tools) if toolbox else None,
        max_tool_iterations=toolbox.limits.turns if toolbox else 1,
    )
    task: MultiModalMessage | TextMessage = MultiModalMessage(content=[prompt.session, prompt.step], source="user")
    reason = ""
    for _ in range(rounds):
        text = await run_agent(agent, task, client, toolbox, record)
        if toolbox is not None and toolbox.submitted is not None:
            return Conversation(candidate=toolbox.submitted)
        if text is None and toolbox is not None:
            return Conversation(reason=NO_HAND_IN.format(turns=toolbox.limits.turns))
        try:
            return Conversation(candidate=read_answer(text or "", client.stop, accept))
        except Rejected as rejected:
            reason = str(rejected)
        if client.stop is Stop.refusal:
            break
        task = TextMessage(content=FOLLOW_UP.format(reason=reason), source="user")
    return Conversation(reason=reason)


def read_answer(completion: str, stop: Stop, accept: Callable[[ExtractedCandidate], None]) -> ExtractedCandidate:
    """The candidate in an answer.

    Raises:
        Rejected: there is none; the message says why.
    """
    if stop is Stop.refusal:
        raise Rejected("the model refused to answer")
    if stop is Stop.length:
        raise Rejected("the answer was cut off before the file was complete: a shorter one is needed")
    if not completion.strip():
        raise Rejected("the answer is empty")
    candidate = candidate_in(completion)
    accept(candidate)
    return candidate


async def run_agent(
    agent: AssistantAgent,
    task: MultiModalMessage | TextMessage,
    client: ModelClient,
    toolbox: Toolbox | None,
    record: Callable[[ToolCalled], None],
) -> str | None:
    """The model's last text; None if it ended with calls of tools. ``record`` gets each call with its answer.

    Raises:
        ModelFault: the model could not be asked, or none of its calls of tools can be carried out.
    """
    text: str | None = None
    wanted, began, failed = dict[str, str](), 0.0, 0
    stream = agent.run_stream(task=task)
    try:
        async for message in stream:
            if isinstance(message, ToolCallRequestEvent):
                wanted = {call.id: call.arguments for call in message.content}
                began = time.perf_counter()
                text = None
            elif isinstance(message, ToolCallExecutionEvent):
                seconds = round(time.perf_counter() - began, 3)
                for result in message.content:
                    record(
                        ToolCalled(
                            backend=client.backend,
                            tool=result.name,
                            call=result.call_id,
                            arguments=client.redact(wanted.get(result.call_id, "")),
                            result=client.redact(result.content),
                            failed=bool(result.is_error),
                            seconds=seconds,
                        )
                    )
                if toolbox is not None and toolbox.submitted is not None:
                    break
                failed = failed + 1 if all(result.is_error for result in message.content) else 0
                if failed == FAILED_ANSWERS:
                    reason = NO_CALLS.format(model=client.model, answers=failed)
                    raise ModelFault(Fault(kind="malformed", message=reason, retryable=False))
            elif isinstance(message, TextMessage) and message.source == agent.name:
                text = message.content
    finally:
        await stream.aclose()
    return text
