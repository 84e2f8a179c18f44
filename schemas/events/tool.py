"""A model used a tool."""

from .base import Event


class ToolCalled(Event, frozen=True, kw_only=True, tag="tool.called.v1"):
    """One call of a tool by a model and what it was answered: replay needs neither. Stands after the answer of the
    model that wanted it (ModelCalled.tool_calls)."""

    backend: str
    """Author that called it."""
    tool: str
    """``search_knowledge``, ``compile``, ``submit``, …"""
    call: str
    """The model's name of this call, as in ModelCalled.tool_calls."""
    arguments: str
    """JSON, as the model wrote it: it may be broken."""
    result: str
    """What the model was answered, as text."""
    failed: bool = False
    """Whether the call could not be carried out: no such tool, broken arguments."""
    role: str = ""
    """Sub-agent that called it (``deep_search``); empty: the author."""
    seconds: float = 0.0
    """Until the answer was there; of calls at once, until all were."""
