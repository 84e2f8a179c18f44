"""The backend that asks a language model of Anthropic's, or of any server that speaks its Messages format."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ....schemas import CandidateProposed, InputError, ModelCalled, SynthesisFailed, sha256
from ..backend import Answer, Request
from .settings import DEFAULT_MODEL, Settings

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

    from .extract import ExtractedCandidate


class AnthropicBackend:
    """Asks a model for each candidate. The SDK and AutoGen are imported with the first request, in a thread."""

    name = "anthropic"

    def __init__(
        self, settings: Settings | None = None, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """``settings`` are read from the environment, at the first use, if they are not given."""
        self._settings = settings
        self._sleep = sleep
        self._sdk: AsyncAnthropic | None = None

    def check(self, model: str = "") -> None:
        """Find out whether a model can be asked at all: is there a key, are the settings usable?

        Raises:
            InputError: no key, an address that is none, or a model's name that is none.
        """
        if self._settings is None:
            self._settings = Settings.from_environment()
        if model and (not model.isprintable() or any(character.isspace() for character in model)):
            raise InputError(f"--model {model!r} is no model's name: use one like {DEFAULT_MODEL}")

    async def synthesize(self, request: Request) -> Answer:
        """Ask the model for the candidate of ``request``; every try is in the answer's ``calls``."""
        model = request.model or DEFAULT_MODEL
        try:
            self.check(model)
        except InputError as error:
            return Answer(failed=SynthesisFailed(backend=self.name, reason=str(error)))
        # Two seconds of imports must not stop the event loop of every other agent.
        await asyncio.to_thread(_import_libraries)
        return await self._ask(request, model)

    async def _ask(self, request: Request, model: str) -> Answer:
        from .agent import converse
        from .client import MessagesClient
        from .faults import ModelFault
        from .prompt import compose

        settings, calls = self._known_settings(), list[ModelCalled]()
        client = MessagesClient(
            self._client(), model, settings, calls.append, backend=self.name, sleep=self._sleep, jitter=_jitter(request)
        )
        try:
            ended = await converse(
                client,
                compose(request),
                stop_reason=lambda: calls[-1].stop_reason,
                accept=lambda candidate: _refuse_repetition(candidate, request),
            )
        except ModelFault as error:
            return self._failed(error.fault.message, calls, retryable=error.fault.retryable)
        if ended.found is None:
            return self._failed(f"{model}: {ended.reason}", calls)
        return Answer(candidate=self._candidate(ended.found, request), calls=tuple(calls))

    def _candidate(self, candidate: "ExtractedCandidate", request: Request) -> CandidateProposed:
        return CandidateProposed(
            source=candidate.source,
            sha256=sha256(candidate.source),
            language=request.language,
            backend=self.name,
            rationale=candidate.rationale,
            parents=tuple(filter(None, (request.plan.parent, request.plan.second))),
            skills=tuple(skill.id for skill in request.skills),
        )

    def _failed(self, reason: str, calls: list[ModelCalled], *, retryable: bool = False) -> Answer:
        return Answer(failed=SynthesisFailed(backend=self.name, reason=reason, retryable=retryable), calls=tuple(calls))

    def _known_settings(self) -> Settings:
        assert self._settings is not None, "check() reads them"
        return self._settings

    def _client(self) -> "AsyncAnthropic":
        if self._sdk is None:
            from anthropic import AsyncAnthropic

            settings = self._known_settings()
            # Retries are ours: each try is an event, and the SDK would hide all but the last.
            self._sdk = AsyncAnthropic(
                api_key=settings.key, base_url=settings.url, timeout=settings.timeout_s, max_retries=0
            )
        return self._sdk

    async def close(self) -> None:
        """Close the connections."""
        if self._sdk is not None:
            await self._sdk.close()
            self._sdk = None


def _refuse_repetition(candidate: "ExtractedCandidate", request: Request) -> None:
    from .extract import Rejected

    for attempt in request.tried:
        if attempt.source == candidate.source:
            raise Rejected(f"the file is the same, to the letter, as that of node {attempt.node}")


def _jitter(request: Request) -> float:
    return (request.plan.draw % 1000) / 1000


def _import_libraries() -> None:
    import anthropic  # noqa: F401
    import autogen_agentchat.agents  # noqa: F401
