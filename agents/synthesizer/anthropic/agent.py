"""One conversation with a model: AutoGen's AssistantAgent asks, and asks once more if the answer holds no candidate."""

from collections.abc import Callable

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MultiModalMessage, TextMessage

from ....schemas import Schema
from .client import MessagesClient
from .extract import ExtractedCandidate, Rejected, candidate_in
from .prompt import Prompt

FOLLOW_UP = (
    "That cannot be used: {reason}. Send the complete candidate file again, in exactly one ```python block, "
    "with at most two sentences before it and nothing after it."
)


class Conversation(Schema, frozen=True, kw_only=True):
    """How a conversation ended."""

    found: ExtractedCandidate | None = None
    reason: str = ""
    """Why there is no candidate; empty if there is one."""


async def converse(
    client: MessagesClient,
    prompt: Prompt,
    *,
    stop_reason: Callable[[], str],
    accept: Callable[[ExtractedCandidate], None],
    rounds: int = 2,
) -> Conversation:
    """Ask for a candidate, at most ``rounds`` times.

    ``stop_reason`` tells how the last answer ended; ``accept`` may raise Rejected for a candidate that is of no use.

    Raises:
        ModelFault: the model could not be asked.
    """
    agent = AssistantAgent("synthesizer", model_client=client, system_message=prompt.system, description="")
    task: MultiModalMessage | TextMessage = MultiModalMessage(content=[prompt.session, prompt.step], source="user")
    reason = ""
    for _ in range(rounds):
        result = await agent.run(task=task)
        last = result.messages[-1]
        assert isinstance(last, TextMessage), "a client without tools answers with text"
        try:
            return Conversation(found=_read(last.content, stop_reason(), accept))
        except Rejected as rejected:
            reason = str(rejected)
        if stop_reason() == "refusal":
            break
        task = TextMessage(content=FOLLOW_UP.format(reason=reason), source="user")
    return Conversation(reason=reason)


def _read(completion: str, stop_reason: str, accept: Callable[[ExtractedCandidate], None]) -> ExtractedCandidate:
    if stop_reason == "refusal":
        raise Rejected("the model refused to answer")
    if stop_reason in ("max_tokens", "model_context_window_exceeded"):
        raise Rejected(f"the answer was cut off ({stop_reason}) before the file was complete: a shorter one is needed")
    if not completion.strip():
        raise Rejected("the answer is empty")
    candidate = candidate_in(completion)
    accept(candidate)
    return candidate
