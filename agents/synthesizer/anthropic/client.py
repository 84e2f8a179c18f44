"""AutoGen's model client over the Anthropic SDK as it is today; every try becomes a ModelCalled record."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from anthropic import AsyncAnthropic
from anthropic.types import Message
from autogen_core import CancellationToken
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FinishReasons,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from ....schemas import ModelCalled
from .faults import Fault, ModelFault, classify
from .messages import answer_text, canonical, checked, prompt_tokens, request_body
from .settings import Settings

Sleep = Callable[[float], Awaitable[object]]
"""``asyncio.sleep``, or a test's."""

_FINISH: dict[str, FinishReasons] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class MessagesClient(ChatCompletionClient):
    """One conversation's way to a model. Text only: tools and structured output are not offered.

    Every try, also a failed one, is handed to ``record`` before anything else happens with it.
    """

    component_type = "model"

    def __init__(
        self,
        sdk: AsyncAnthropic,
        model: str,
        settings: Settings,
        record: Callable[[ModelCalled], None],
        *,
        backend: str = "anthropic",
        sleep: Sleep = asyncio.sleep,
        jitter: float = 0.5,
    ) -> None:
        """``sdk`` must not retry by itself; ``jitter`` in [0, 1) spreads the pauses of many workers."""
        self._sdk, self._model, self._settings = sdk, model, settings
        self._record, self._backend, self._sleep, self._jitter = record, backend, sleep, jitter
        self._total = RequestUsage(prompt_tokens=0, completion_tokens=0)
        self._last = RequestUsage(prompt_tokens=0, completion_tokens=0)

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = {},
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Ask the model, with pauses and further tries where they can help.

        Raises:
            ModelFault: no usable answer came.
            ValueError: tools, structured output or other arguments were asked for.
        """
        if tools or json_output or extra_create_args:
            raise ValueError("this client speaks text only: no tools, no structured output, no other arguments")
        body = request_body(messages, self._model, self._settings)
        task = asyncio.ensure_future(self._ask(body))
        if cancellation_token is not None:
            cancellation_token.link_future(task)
        message = await task
        usage = RequestUsage(prompt_tokens=prompt_tokens(message), completion_tokens=message.usage.output_tokens)
        self._last = usage
        self._total = RequestUsage(
            prompt_tokens=self._total.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self._total.completion_tokens + usage.completion_tokens,
        )
        finish = _FINISH.get(message.stop_reason or "", "unknown")
        return CreateResult(
            finish_reason=finish, content=self._settings.redact(answer_text(message)), usage=usage, cached=False
        )

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = {},
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The whole answer as one chunk, then the result. Raises what :meth:`create` raises."""
        result = await self.create(
            messages,
            tools=tools,
            json_output=json_output,
            extra_create_args=extra_create_args,
            cancellation_token=cancellation_token,
        )
        yield str(result.content)
        yield result

    async def _ask(self, body: dict[str, Any]) -> Message:
        for attempt in range(1, self._settings.attempts + 1):
            outcome = await self._try(body, attempt)
            if isinstance(outcome, Message):
                return outcome
            pause = pause_before(attempt + 1, outcome, self._jitter)
            last = attempt == self._settings.attempts
            if last or not outcome.retryable or pause > self._settings.longest_wait_s:
                raise ModelFault(outcome)
            await self._sleep(pause)
        raise AssertionError("at least one attempt is made")

    async def _try(self, body: dict[str, Any], attempt: int) -> Message | Fault:
        begin = time.perf_counter()
        try:
            message = checked(await self._send(body))
        except Exception as error:
            fault = classify(error, self._model, self._settings)
            if fault is None:
                raise
            self._record(self._failed_call(body, attempt, _since(begin), fault))
            return fault
        self._record(self._call(body, attempt, _since(begin), message))
        return message

    async def _send(self, body: dict[str, Any]) -> object:
        # The SDK has no parameter for a temperature any more; servers that take one read it from the body.
        extra = {name: body[name] for name in ("temperature",) if name in body}
        return await self._sdk.messages.create(
            model=body["model"],
            max_tokens=body["max_tokens"],
            system=body["system"],
            messages=body["messages"],
            extra_body=extra or None,
        )

    def _call(self, body: dict[str, Any], attempt: int, latency_ms: float, message: Message) -> ModelCalled:
        usage = message.usage
        return ModelCalled(
            backend=self._backend,
            model=self._model,
            request=self._settings.redact(canonical(body)),
            completion=self._settings.redact(answer_text(message)),
            stop_reason=message.stop_reason or "",
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_input_tokens or 0,
            cache_write_tokens=usage.cache_creation_input_tokens or 0,
            latency_ms=latency_ms,
            attempt=attempt,
        )

    def _failed_call(self, body: dict[str, Any], attempt: int, latency_ms: float, fault: Fault) -> ModelCalled:
        return ModelCalled(
            backend=self._backend,
            model=self._model,
            request=self._settings.redact(canonical(body)),
            completion="",
            stop_reason="error",
            input_tokens=0,
            output_tokens=0,
            latency_ms=latency_ms,
            error=f"{fault.kind}: {fault.message}",
            attempt=attempt,
        )

    async def close(self) -> None:
        """Nothing: the SDK's client belongs to the backend."""

    def actual_usage(self) -> RequestUsage:
        """Tokens of the last answer."""
        return self._last

    def total_usage(self) -> RequestUsage:
        """Tokens of all answers."""
        return self._total

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """An estimate (three characters a token): the exact count needs a request."""
        return math.ceil(len(canonical(request_body(messages, self._model, self._settings))) / 3)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """What is left of a context of 200,000 tokens, by :meth:`count_tokens`."""
        return 200_000 - self.count_tokens(messages)

    @property
    def capabilities(self) -> ModelInfo:
        """AutoGen's older name of :attr:`model_info`."""
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        """What AutoGen may ask of this client: text in several blocks, nothing else."""
        # Vision is claimed because AutoGen otherwise joins a message's blocks into one, and the cache mark needs them.
        return ModelInfo(
            vision=True,
            function_calling=False,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
            multiple_system_messages=False,
        )


def pause_before(attempt: int, fault: Fault, jitter: float) -> float:
    """Seconds before try number ``attempt`` (2, 3, …): what the server said, else 1, 2, 4, … spread by jitter."""
    if fault.wait_s is not None:
        return fault.wait_s
    return float(min(2 ** (attempt - 2), 30) * (0.75 + 0.5 * jitter))


def _since(begin: float) -> float:
    return round((time.perf_counter() - begin) * 1000, 3)
