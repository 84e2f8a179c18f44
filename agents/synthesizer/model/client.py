"""AutoGen's model client over a vendor's wire; every try becomes a ModelCalled record."""

import asyncio
import json
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

from autogen_core import CancellationToken, FunctionCall
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
from msgspec.structs import replace
from pydantic import BaseModel

from ....schemas import KernelswarmError, ModelCalled
from .cleaned import cleaned, counted
from .faults import Fault, ModelFault
from .prices import Price
from .reply import Reply, Stop, Usage
from .settings import Settings, public_url
from .spending import LEAST_ANSWER, LimitReached
from .tokens import estimated_tokens
from .wire import Wire

Sleep = Callable[[float], Awaitable[object]]
"""``asyncio.sleep``, or a test's."""
Admit = Callable[[int, int], AbstractAsyncContextManager[int]]
"""From the tokens of a request and the most of its answer to how long that may be; waits, or raises LimitReached."""
ANSWER_LIMITS = ("max_tokens", "max_completion_tokens")
"""What the longest answer is called in a request."""
SCHEMA_FIELDS = ("output_config", "response_format")
"""What holds the schema of an answer in a request."""
_CANCELLED = Fault(
    kind="cancelled", message="the request was given up before its answer ended", retryable=False, was_sent=True
)
_ASKED_IN_WORDS = "; asked again without the schema of the answer"

_FINISH: dict[Stop, FinishReasons] = {
    Stop.end: "stop",
    Stop.tools: "function_calls",
    Stop.length: "length",
    Stop.refusal: "content_filter",
}


@asynccontextmanager
async def unlimited(prompt: int, answer: int) -> AsyncIterator[int]:
    """Whatever is asked may be asked."""
    yield answer


class ModelClient(ChatCompletionClient):
    """One conversation's way to a model, with tools.

    Every try, also a failed one, is handed to ``record`` before anything else happens with it.
    """

    component_type = "model"

    def __init__(
        self,
        wire: Wire,
        model: str,
        settings: Settings,
        record: Callable[[ModelCalled], None],
        *,
        admit: Admit = unlimited,
        price: Price | None = None,
        sleep: Sleep = asyncio.sleep,
        jitter: float = 0.5,
    ) -> None:
        """``admit`` bounds what is asked; ``jitter`` in [0, 1) spreads the pauses of many workers."""
        self._admit, self._price = admit, price
        self._context = price.context if price is not None else 0
        self._wire, self._model, self._settings = wire, model, settings
        self._record, self._sleep, self._jitter = record, sleep, jitter
        self._total = RequestUsage(prompt_tokens=0, completion_tokens=0)
        self._last = RequestUsage(prompt_tokens=0, completion_tokens=0)
        self.stop = Stop.end
        """Why the last answer ended."""
        self.refuses_schemas = False
        """Whether the server, or the model, takes no schema of an answer: then it is asked in words alone."""

    @property
    def backend(self) -> str:
        """Name of the backend that asks."""
        return self._settings.vendor.name

    @property
    def model(self) -> str:
        """Model that is asked."""
        return self._model

    def redact(self, text: str) -> str:
        """``text`` without the key, fit for an event."""
        return self._settings.redact(text)

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

        ``extra_create_args`` may have ``schema``: the JSON schema that the text of the answer is to follow. Who reads
        the answer cannot rely on it: a server that refuses schemas is asked without one.

        Raises:
            ModelFault: no usable answer came.
            ValueError: a type as the answer, another choice of tools or other arguments were asked for.
        """
        if json_output or extra_create_args.keys() - {"schema"} or tool_choice != "auto":
            raise ValueError("this client offers text, tools and a schema: no types as answers, no other arguments")
        offered = [_schema(tool) for tool in tools]
        task = asyncio.ensure_future(self._answered(messages, offered, extra_create_args.get("schema")))
        if cancellation_token is not None:
            cancellation_token.link_future(task)
        reply = await task
        self.stop = reply.stop
        self._count(RequestUsage(prompt_tokens=reply.usage.prompt_tokens, completion_tokens=reply.usage.output_tokens))
        text = reply.text
        calls = [FunctionCall(id=call.id, name=call.name, arguments=call.arguments) for call in reply.tools]
        return CreateResult(
            finish_reason=_FINISH.get(reply.stop, "unknown"),
            content=calls or text,
            thought=text if calls and text else None,
            usage=self._last,
            cached=False,
        )

    async def create_stream(self, *request: Any, **options: Any) -> AsyncGenerator[str | CreateResult, None]:
        """The whole answer as one chunk, then the result. Takes and raises what :meth:`create` does."""
        result = await self.create(*request, **options)
        yield result.content if isinstance(result.content, str) else ""
        yield result

    async def _answered(
        self, messages: Sequence[LLMMessage], tools: Sequence[ToolSchema], schema: Mapping[str, Any] | None
    ) -> Reply:
        if schema is not None and not self.refuses_schemas:
            try:
                return await self._ask(self._wire.body(messages, tools, schema))
            except ModelFault as error:
                if not _may_refuse_schema(error.fault):
                    raise
            reply = await self._ask(self._wire.body(messages, tools))
            self.refuses_schemas = True
            return reply
        return await self._ask(self._wire.body(messages, tools))

    async def _ask(self, body: dict[str, Any]) -> Reply:
        for attempt in range(1, self._settings.attempts + 1):
            outcome = await self._admitted(body, attempt)
            if isinstance(outcome, Reply):
                return outcome
            pause = pause_before(attempt + 1, outcome, self._jitter)
            last = attempt == self._settings.attempts
            if last or not outcome.retryable or pause > self._settings.longest_wait_s:
                raise ModelFault(outcome)
            await self._sleep(pause)
        raise AssertionError("at least one attempt is made")

    async def _admitted(self, body: dict[str, Any], attempt: int) -> Reply | Fault:
        """One try, if what is left allows it; the answer may then be so long."""
        name = next(name for name in ANSWER_LIMITS if name in body)
        try:
            asked, longest = estimated_tokens(canonical(body)), self._settings.max_tokens
            if self._context:
                # Servers refuse a request whose longest answer does not fit; by the estimate it may, just.
                longest = min(longest, max(LEAST_ANSWER, self._context - asked))
            async with self._admit(asked, longest) as answer:
                return await self._try({**body, name: answer}, attempt)
        except LimitReached as limit:
            raise ModelFault(Fault(kind="limit", message=str(limit), retryable=False)) from limit

    async def _try(self, body: dict[str, Any], attempt: int) -> Reply | Fault:
        begin = time.perf_counter()
        try:
            async with asyncio.timeout(self._settings.longest_answer_s):
                sent = await self._wire.send(body)
            reply = cleaned(sent, self._settings.redact)
        except asyncio.CancelledError:
            # The server has it: it is paid for like an answer that breaks off.
            wasted = self._wasted(body, _CANCELLED)
            self._record(self._failed_call(body, attempt, _since(begin), _CANCELLED, wasted))
            raise
        except Exception as error:  # noqa: BLE001 - every one is a fault, or raised again without secrets
            fault = self._endless() if isinstance(error, TimeoutError) else self._wire.fault(error)
            if fault is None:
                raise self._defect(error) from None
            if any(name in body for name in SCHEMA_FIELDS) and _may_refuse_schema(fault):
                fault = replace(fault, message=fault.message + _ASKED_IN_WORDS)
            self._record(self._failed_call(body, attempt, _since(begin), fault, self._wasted(body, fault)))
            return fault
        self._record(self._call(body, attempt, _since(begin), reply))
        self._wire.keep(reply)
        return reply

    def _endless(self) -> Fault:
        seconds, url = self._settings.longest_answer_s, public_url(self._settings.url)
        message = f"the answer of {url} did not end within {seconds:g} s: the server goes on sending"
        return Fault(kind="timeout", message=message, retryable=False, was_sent=True)

    def _wasted(self, body: dict[str, Any], fault: Fault) -> Usage | None:
        """Tokens of a try that failed, as far as it is paid for: an answer that broke off is, as far as it came."""
        streamed = self._wire.streamed()
        if streamed is not None:
            longest = next(body[name] for name in ANSWER_LIMITS if name in body)
            return counted(replace(streamed, output_tokens=min(streamed.output_tokens, longest)))
        if not fault.was_sent:
            return None
        return Usage(input_tokens=estimated_tokens(canonical(body)), output_tokens=0, is_estimated=True)

    def _defect(self, error: Exception) -> KernelswarmError:
        """An error that is nobody's fault but ours, without what it may hold of a request's head."""
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = self._settings.redact(f"{type(error).__name__}: {error}")
        return KernelswarmError(f"a defect in asking {self._model}: {text} ({place.name} in {place.filename})")

    def _call(self, body: dict[str, Any], attempt: int, latency_ms: float, reply: Reply) -> ModelCalled:
        return self._recorded(
            body,
            reply.usage,
            completion=reply.text,
            tool_calls=_tool_calls(reply),
            blocks=reply.blocks,
            stop_reason=reply.stop_reason,
            cost=self._cost(reply.usage),
            price_date=self._price.date if self._price else "",
            latency_ms=latency_ms,
            attempt=attempt,
        )

    def _failed_call(
        self, body: dict[str, Any], attempt: int, latency_ms: float, fault: Fault, wasted: Usage | None
    ) -> ModelCalled:
        usage = wasted or Usage(input_tokens=0, output_tokens=0)
        return self._recorded(
            body,
            usage,
            completion="",
            stop_reason="error",
            cost=self._cost(usage) if wasted else None,
            price_date=self._price.date if wasted and self._price else "",
            latency_ms=latency_ms,
            error=f"{fault.kind}: {fault.message}",
            attempt=attempt,
        )

    def _recorded(self, body: dict[str, Any], usage: Usage, **fields: Any) -> ModelCalled:
        return ModelCalled(
            backend=self._settings.vendor.name,
            model=self._model,
            request=self._settings.redact(canonical(body)),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            estimated=usage.is_estimated,
            context=self._context,
            **fields,
        )

    def _cost(self, usage: Usage) -> float | None:
        if self._price is None:
            return None
        return self._price.of(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            read=usage.cache_read_tokens,
            write=usage.cache_write_tokens,
        )

    def _count(self, usage: RequestUsage) -> None:
        self._last = usage
        self._total = RequestUsage(
            prompt_tokens=self._total.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self._total.completion_tokens + usage.completion_tokens,
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
        return estimated_tokens(canonical(self._wire.body(messages, [_schema(tool) for tool in tools])))

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """What is left of a context of 200,000 tokens, by :meth:`count_tokens`."""
        return 200_000 - self.count_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> ModelInfo:
        """AutoGen's older name of :attr:`model_info`."""
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        """What AutoGen may ask of this client: text in several blocks, and tools."""
        # Vision is claimed because AutoGen otherwise joins a message's blocks into one, and the cache mark needs them.
        return ModelInfo(
            vision=True,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
            multiple_system_messages=False,
        )


def canonical(body: dict[str, Any]) -> str:
    """``body`` as JSON that is the same for the same request."""
    return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def pause_before(attempt: int, fault: Fault, jitter: float) -> float:
    """Seconds before try number ``attempt`` (2, 3, …): what the server said, else 1, 2, 4, … spread by jitter."""
    if fault.wait_s is not None:
        return fault.wait_s
    return float(min(2 ** (attempt - 2), 30) * (0.75 + 0.5 * jitter))


def _may_refuse_schema(fault: Fault) -> bool:
    """Whether ``fault`` may be that of a server, or a model, that takes no schema: they say so in many ways."""
    return fault.kind in ("invalid_request", "refused")


def _schema(tool: Tool | ToolSchema) -> ToolSchema:
    return tool.schema if isinstance(tool, Tool) else tool


def _tool_calls(reply: Reply) -> str:
    if not reply.tools:
        return ""
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tools]
    return json.dumps(calls, ensure_ascii=False, separators=(",", ":"))


def _since(begin: float) -> float:
    return round((time.perf_counter() - begin) * 1000, 3)
