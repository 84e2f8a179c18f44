"""One node by a model: prompt, limits, conversation, and the answer with everything that was asked on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ....knowledge import open_library
from ....schemas import CandidateProposed, InputError, ModelCalled, SynthesisFailed, sha256
from ..backend import Answer, Record, Request
from .client import ModelClient, Sleep
from .conversation import Conversation, converse
from .extract import ExtractedCandidate, Rejected
from .faults import Fault, ModelFault
from .prices import Price
from .prompt import Prompt, compose
from .settings import Settings
from .spending import total
from .subagents import DEEP_SEARCH, SubAgents
from .surroundings import Surroundings
from .toolbox import NODE_LIMITS, NodeLimits, Toolbox
from .wire import Wire

TOOLS_CONTEXT = 32_000
"""A model whose context has fewer tokens is offered no tools: their results would leave no room for the file."""


class Authoring:
    """Asks one model for the candidate of one request."""

    def __init__(
        self,
        wire: Wire,
        model: str,
        settings: Settings,
        price: Price | None,
        request: Request,
        surroundings: Surroundings,
        sleep: Sleep,
        limits: NodeLimits = NODE_LIMITS,
    ) -> None:
        self._model, self._settings, self._price = model, settings, price
        self._request, self._around, self._limits = request, surroundings, limits
        self._context = price.context if price is not None else 0
        self._records: list[Record] = []
        self._client = ModelClient(
            *(wire, model, settings, self._record),
            admit=self._admit,
            price=price,
            sleep=sleep,
            jitter=(request.plan.draw % 1000) / 1000,
        )
        self._subagents = self._open_subagents()
        self._library = surroundings.library or open_library(request.pool, request.hardware.isa, surroundings.home)
        self.toolbox = self._open_toolbox()
        """Tools of the conversation; None: the file alone is asked for."""

    async def answer(self) -> Answer:
        """The candidate, or why there is none."""
        try:
            condensed = "" if self._subagents is None else await self._subagents.condensed(self._request)
            prompt = await asyncio.to_thread(
                compose,
                self._request,
                self._library,
                condensed=condensed,
                context=self._context,
                answer=self._settings.max_tokens,
            )
            self._records.append(prompt.retrieved)
            async with asyncio.timeout(self._limits.seconds + self._settings.longest_answer_s):
                ended = await self._converse(prompt)
        except InputError as error:
            return self._failed(f"{self._model}: {error}")
        except TimeoutError:
            return self._failed(
                _spent(f"more than {self._limits.seconds:g} s, and did not end").message, retryable=True
            )
        except ModelFault as error:
            fault = error.fault
            return self._failed(fault.message, retryable=fault.retryable, exhausted=fault.kind == "limit")
        except BaseException:
            # Cancelled, or a defect: no answer will say what was asked.
            if self._around.publish_cut_off is not None and self._calls:
                await self._around.publish_cut_off(self._calls)
            raise
        if ended.candidate is None:
            return self._failed(f"{self._model}: {ended.reason}")
        return Answer(candidate=self._candidate(ended.candidate), records=tuple(self._records))

    async def _converse(self, prompt: Prompt) -> Conversation:
        try:
            return await converse(
                *(self._client, prompt), accept=self._accept, toolbox=self.toolbox, record=self._records.append
            )
        except ModelFault as error:
            if self.toolbox is None or self.toolbox.turns or not _refuses_tools(error):
                raise
        # Not every model can call tools: then it is asked for the file alone.
        self.toolbox = None
        return await converse(self._client, prompt, accept=self._accept)

    def _open_toolbox(self) -> Toolbox | None:
        if self._around.desk is None or 0 < self._context < TOOLS_CONTEXT:
            return None
        agents = self._subagents
        search = agents.search if agents is not None and agents.has(DEEP_SEARCH, self._request) else None
        return Toolbox(
            *(self._request, self._library, self._around.desk),
            accept=self._accept,
            record=self._records.append,
            limits=self._limits,
            deep_search=search,
        )

    def _open_subagents(self) -> SubAgents | None:
        around = self._around
        if around.open_client is None or not around.subagents:
            return None
        return SubAgents(around.subagents, around.open_client, self._record_subagent)

    @property
    def _calls(self) -> list[ModelCalled]:
        return [event for event in self._records if isinstance(event, ModelCalled)]

    def _record_subagent(self, record: Record) -> None:
        self._records.append(record)
        if isinstance(record, ModelCalled):
            self._around.ledger.record(record)

    def _record(self, call: ModelCalled) -> None:
        self._records.append(call)
        self._around.ledger.record(call)
        if self.toolbox is not None and not call.error:
            self.toolbox.turns += 1

    @asynccontextmanager
    async def _admit(self, prompt: int, answer: int) -> AsyncIterator[int]:
        """Both limits: the node's, which end a conversation, and the session's, which end its author's share."""
        self._check_node(prompt)
        async with self._around.ledger.reserved(self._around.limits, self._price, prompt, answer) as allowed:
            # It may have waited for others.
            self._check_node(prompt)
            yield allowed

    def _check_node(self, prompt: int) -> None:
        """Whether a request of ``prompt`` tokens may be sent, whatever the server counts."""
        limits, used = self._limits, total(self._calls)
        if max(used.tokens, prompt) > limits.tokens:
            raise ModelFault(_spent(f"{used.tokens:,} tokens (a node has {limits.tokens:,}) and handed nothing in"))
        asking = self._price.of(input_tokens=prompt, output_tokens=0) if self._price else 0.0
        if used.cost + asking > limits.cost:
            raise ModelFault(_spent(f"${used.cost:.2f} (a node has ${limits.cost:.2f}) and handed nothing in"))
        if self.toolbox is not None and self.toolbox.is_out_of_time():
            raise ModelFault(_spent(f"more than {limits.seconds:g} s, and handed nothing in"))

    def _accept(self, candidate: ExtractedCandidate) -> None:
        for attempt in self._request.tried:
            if attempt.source == candidate.source:
                raise Rejected(f"the file is the same, to the letter, as that of node {attempt.node}")

    def _candidate(self, candidate: ExtractedCandidate) -> CandidateProposed:
        request = self._request
        return CandidateProposed(
            source=self._settings.redact(candidate.source),
            sha256=sha256(self._settings.redact(candidate.source)),
            language=request.language,
            backend=self._settings.vendor.name,
            rationale=self._settings.redact(candidate.rationale),
            parents=tuple(filter(None, (request.plan.parent, request.plan.second))),
            skills=tuple(skill.id for skill in request.skills),
        )

    def _failed(self, reason: str, *, retryable: bool = False, exhausted: bool = False) -> Answer:
        failed = SynthesisFailed(
            backend=self._settings.vendor.name, reason=reason, retryable=retryable, exhausted=exhausted
        )
        return Answer(failed=failed, records=tuple(self._records))


def _spent(what: str) -> Fault:
    return Fault(kind="node_limit", message=f"the conversation took {what}", retryable=True)


def _refuses_tools(error: ModelFault) -> bool:
    return error.fault.kind in ("invalid_request", "refused", "not_found") and "tool" in error.fault.message.lower()
