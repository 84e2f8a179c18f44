"""A question in text to a model, without tools: for the roles of the ring, and for what an author has condensed."""

from collections.abc import Callable, Mapping
from typing import Any

from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from .client import ModelClient
from .faults import ModelFault

SOURCE = "user"


async def ask(
    client: ModelClient,
    system: str,
    text: str,
    complaint: Callable[[str], str],
    rounds: int,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Ask until ``complaint`` has none about the answer, at most ``rounds`` times; the client records every try.

    The answer is to follow ``schema``, where there is one and the server takes it.

    Returns:
        Why the model could not be asked; empty if it could.
    """
    messages: list[LLMMessage] = [SystemMessage(content=system), UserMessage(content=text, source=SOURCE)]
    for _ in range(rounds):
        try:
            result = await client.create(messages, extra_create_args={} if schema is None else {"schema": schema})
        except ModelFault as error:
            return str(error.fault.message)
        answer = result.content if isinstance(result.content, str) else ""
        wrong = complaint(answer)
        if not wrong:
            break
        messages += [AssistantMessage(content=answer, source="model"), UserMessage(content=wrong, source=SOURCE)]
    return ""
