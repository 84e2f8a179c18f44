"""A backend that asks a language model: the same for every vendor but for its SDK and its format."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ....schemas import CandidateProposed, InputError, ModelCalled, SynthesisFailed, sha256
from ..backend import Answer, Request
from .settings import Settings, VendorFacts, check_model

if TYPE_CHECKING:
    from .extract import ExtractedCandidate
    from .wire import Wire


class Closable(Protocol):
    """A vendor's SDK client."""

    async def close(self) -> None:
        """Close its connections."""


Sdk = TypeVar("Sdk", bound=Closable)


class ModelBackend(ABC, Generic[Sdk]):
    """Asks a model for each candidate. The SDK and AutoGen are imported with the first request, in a thread."""

    name: str
    vendor: VendorFacts
    library: str
    """Module of the vendor's SDK."""

    def __init__(
        self, settings: Settings | None = None, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """``settings`` are read from the environment, with each request, if they are not given."""
        self._settings = settings
        self._sleep = sleep
        self._sdks: dict[str, Sdk] = {}

    @abstractmethod
    def open_sdk(self, settings: Settings) -> Sdk:
        """The vendor's client, without retries of its own."""

    @abstractmethod
    def open_wire(self, sdk: Sdk, model: str, settings: Settings) -> "Wire":
        """One conversation over it."""

    def check(self, model: str = "", base_url: str = "") -> None:
        """Find out whether a model can be asked at all: is there a key, are the settings usable?

        Raises:
            InputError: no key, an address that is none, or a model's name that is none.
        """
        self._settings_for(base_url)
        check_model(model, self.vendor)

    async def synthesize(self, request: Request) -> Answer:
        """Ask the model for the candidate of ``request``; every try is in the answer's ``calls``."""
        model = request.model or self.vendor.model
        try:
            self.check(model, request.base_url)
        except InputError as error:
            return Answer(failed=SynthesisFailed(backend=self.name, reason=str(error)))
        # Two seconds of imports must not stop the event loop of every other agent.
        await asyncio.to_thread(_import_libraries, self.library)
        return await self._ask(request, model, self._settings_for(request.base_url))

    async def _ask(self, request: Request, model: str, settings: Settings) -> Answer:
        from .client import ModelClient
        from .conversation import converse
        from .faults import ModelFault
        from .prompt import compose

        calls = list[ModelCalled]()
        wire = self.open_wire(self._sdk(settings), model, settings)
        client = ModelClient(wire, model, settings, calls.append, sleep=self._sleep, jitter=_jitter(request))
        try:
            ended = await converse(
                client, compose(request), accept=lambda candidate: _refuse_repetition(candidate, request)
            )
        except ModelFault as error:
            return self._failed(error.fault.message, calls, retryable=error.fault.retryable)
        if ended.candidate is None:
            return self._failed(f"{model}: {ended.reason}", calls)
        return Answer(candidate=self._candidate(ended.candidate, request), calls=tuple(calls))

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

    def _settings_for(self, base_url: str) -> Settings:
        return self._settings or Settings.from_environment(self.vendor, base_url)

    def _sdk(self, settings: Settings) -> Sdk:
        key = f"{settings.url} {settings.key}"
        if key not in self._sdks:
            self._sdks[key] = self.open_sdk(settings)
        return self._sdks[key]

    async def close(self) -> None:
        """Close the connections."""
        for sdk in self._sdks.values():
            await sdk.close()
        self._sdks.clear()


def _refuse_repetition(candidate: "ExtractedCandidate", request: Request) -> None:
    from .extract import Rejected

    for attempt in request.tried:
        if attempt.source == candidate.source:
            raise Rejected(f"the file is the same, to the letter, as that of node {attempt.node}")


def _jitter(request: Request) -> float:
    return (request.plan.draw % 1000) / 1000


def _import_libraries(library: str) -> Any:
    import_module("autogen_agentchat.agents")
    return import_module(library)
