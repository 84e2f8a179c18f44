"""What a session's models have spent, and whether one more request may be sent.

A request is refused before it is sent if it could pass a limit. What is under way counts with the most that it may
cost: a request that finds no room beside it waits until it has settled, since most answers are far shorter than they
may be. All workers of a process share one ledger. Those of other processes are known by what they published; what they
have under way is not, so a fleet may pass a limit by as many requests as it has other processes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ....graph.session_graph import SearchGraph
from ....schemas import ModelCalled, Schema
from ...runtime import LatestUsed
from .prices import Price

LEAST_ANSWER = 2_000
"""An answer that could not even be this long, tokens, is not asked for."""


class Limits(Schema, frozen=True, kw_only=True):
    """What may be spent; None for no limit."""

    cost: float | None = None
    """US dollars."""
    tokens: int | None = None
    """Of requests and answers together, whatever caches gave."""


NO_LIMITS = Limits()


class LimitReached(Exception):
    """One more request could pass a limit; the message says which."""


@dataclass
class Spent:
    """US dollars and tokens."""

    cost: float = 0.0
    tokens: int = 0

    def add(self, cost: float, tokens: int) -> None:
        """Add to both."""
        self.cost += cost
        self.tokens += tokens


@dataclass
class Ledger:
    """One session's spending."""

    _published: Spent = field(default_factory=Spent)
    _calls_seen: int = 0
    _own: list[ModelCalled] = field(default_factory=list)
    """What this process asked and the stream does not hold yet."""
    _reserved: Spent = field(default_factory=Spent)
    """The most that requests under way may come to."""
    _under_way: int = 0
    """How many those are."""
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one of them ends; then the next one has another."""

    def observe(self, graph: SearchGraph) -> None:
        """Take in what was published by now; a graph that is older than the last one says nothing."""
        if len(graph.calls) < self._calls_seen:
            return
        for call in graph.calls[self._calls_seen :]:
            self._published.add(*_of(call))
            if call in self._own:
                self._own.remove(call)
        self._calls_seen = len(graph.calls)

    def record(self, call: ModelCalled) -> None:
        """A call of this process's own came back. It counts even if it is never published: it was paid for."""
        self._own.append(call)

    @property
    def spent(self) -> Spent:
        """By everybody, as far as it is known here."""
        own = total(self._own)
        return Spent(self._published.cost + own.cost, self._published.tokens + own.tokens)

    @asynccontextmanager
    async def reserved(
        self, limits: Limits, price: Price | None, prompt: int, answer: int, *, waits: bool = True
    ) -> AsyncIterator[int]:
        """While the body runs, one request of ``prompt`` tokens is under way; yields how long its answer may be.

        It waits while requests under way leave no room for the whole answer, if it ``waits`` at all. Beside none of
        them the answer may be shorter. A session's requests are of one event loop.

        Raises:
            LimitReached: what is spent leaves no room, even for a short answer; or it does not wait.
        """
        while True:
            alone = self._room(limits, price, prompt, answer, Spent())
            allowed = self._room(limits, price, prompt, answer, self._reserved) if self._under_way else alone
            if alone < LEAST_ANSWER:
                raise LimitReached(self._no_room(limits, price, prompt))
            if allowed >= answer or not self._under_way:
                break
            if not waits:
                raise LimitReached("requests under way leave no room for another one under the session's limit")
            await self._settled.wait()
        cost = price.of(input_tokens=0, write=prompt, output_tokens=allowed) if price else 0.0
        self._reserved.add(cost, prompt + allowed)
        self._under_way += 1
        try:
            yield allowed
        finally:
            self._reserved.add(-cost, -(prompt + allowed))
            self._under_way -= 1
            self._settled.set()
            self._settled = asyncio.Event()

    def _room(self, limits: Limits, price: Price | None, prompt: int, answer: int, reserved: Spent) -> int:
        """Tokens that the answer may have beside what is spent and ``reserved``, at most ``answer``."""
        if limits.tokens is not None:
            answer = min(answer, limits.tokens - self.spent.tokens - reserved.tokens - prompt)
        if limits.cost is not None:
            if price is None:
                return 0
            asking = price.of(input_tokens=0, output_tokens=0, write=prompt)
            left = limits.cost - self.spent.cost - reserved.cost - asking
            answer = min(answer, int(left / price.output * 1e6)) if price.output > 0 else answer * (left >= 0)
        return answer

    def _no_room(self, limits: Limits, price: Price | None, prompt: int) -> str:
        """Which limit leaves no room, and the option that would."""
        spent = self.spent
        if limits.tokens is not None and limits.tokens - spent.tokens - prompt < LEAST_ANSWER:
            return (
                f"the session's limit of {limits.tokens:,} tokens leaves no room for another request of {prompt:,} and "
                f"its answer: {spent.tokens:,} are used; give it more (--max-tokens)"
            )
        if price is None:
            return "--max-cost cannot be kept: nobody knows what this model costs (prices.toml)"
        least = price.of(input_tokens=0, write=prompt, output_tokens=LEAST_ANSWER)
        return (
            f"the session's limit of ${limits.cost:.2f} leaves no room for another request, which may cost "
            f"${least:.2f}: ${spent.cost:.2f} are spent; give it more (--max-cost)"
        )


LEDGERS: LatestUsed[Ledger] = LatestUsed(Ledger)
"""Of this process's sessions: its workers spend the same money."""


def total(calls: Sequence[ModelCalled]) -> Spent:
    """What ``calls`` came to; those without a price cost nothing here."""
    spent = Spent()
    for call in calls:
        spent.add(*_of(call))
    return spent


def _of(call: ModelCalled) -> tuple[float, int]:
    prompt = call.input_tokens + call.cache_read_tokens + call.cache_write_tokens
    return call.cost or 0.0, prompt + call.output_tokens
