"""A language model was asked."""

from .base import Event


class ModelCalled(Event, frozen=True, kw_only=True, tag="model.called.v1"):
    """One request to a model and what came back: replay needs no network because of it."""

    backend: str
    model: str
    request: str
    """The request as JSON, without secrets."""
    completion: str
    """Text of the answer; empty if there was none."""
    stop_reason: str
    """As the provider says it; ``error`` if the call failed."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    latency_ms: float = 0.0
    error: str = ""
    """Kind and message of a failure."""
    attempt: int = 1
    """Which try, from 1."""
    tool_calls: str = ""
    """Tools that the model wants called, as a JSON list of ``id``, ``name`` and ``arguments``; empty for none."""
    blocks: str = ""
    """The answer as its provider wants it back with the results of tools, JSON; empty where it is only text and calls
    of tools."""
    cost: float | None = None
    """US dollars by the price of the day; None if no price is known. A failed call costs what came of its answer, by an
    estimate, and its request where the server had it; else None. Older failed calls: None, with no tokens."""
    price_date: str = ""
    """When that price was looked up; empty where there is none."""
    estimated: bool = False
    """Whether the server did not count the tokens, or not all: then they are counted by characters."""
    context: int = 0
    """Tokens of the longest request with its answer that the price table names for the model, which bounds its prompt;
    0 if it names none."""
    role: str = ""
    """Who asked, where it was not the author: ``analyst``, ``planner``, ``distiller``, ``deep_search``,
    ``context_memory``."""
