"""One conversation with a model: AutoGen's AssistantAgent asks, and asks once more if the answer holds no candidate."""

from collections.abc import Callable

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MultiModalMessage, TextMessage

from ....schemas import Schema
from .client import ModelClient
from .extract import ExtractedCandidate, Rejected, candidate_in
from .prompt import Prompt
from .reply import Stop

FOLLOW_UP = (
    "That cannot be used: {reason}. Send the complete candidate file again, in exactly one ```python block, "
    "with at most two sentences before it and nothing after it."
)


class Conversation(Schema, frozen=True, kw_only=True):
    """How a conversation ended."""

    candidate: ExtractedCandidate | None = None
    reason: str = ""
    """Why there is no candidate; empty if there is one."""


async def converse(
    client: ModelClient, prompt: Prompt, *, accept: Callable[[ExtractedCandidate], None], rounds: int = 2
) -> Conversation:
    """Ask for a candidate, at most ``rounds`` times.

    ``accept`` may raise Rejected for a candidate that is of no use.

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
            return Conversation(candidate=read_answer(last.content, client.stop, accept))
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
