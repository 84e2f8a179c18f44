"""What a conversation has around it beside its request: the bus behind its tools, manuals, money."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ....schemas import ModelCalled, RoleModel
from .spending import NO_LIMITS, Ledger, Limits

if TYPE_CHECKING:
    from ....knowledge import Library
    from .desk import Desk
    from .subagents import OpenClient


@dataclass(frozen=True)
class Surroundings:
    """All of it can be missing: then there are no tools, no manuals of the user's, no limits."""

    desk: "Desk | None" = None
    """Answers the tools; None: the model gets none."""
    home: Path | None = None
    """Where the user's manuals and prices are."""
    limits: Limits = NO_LIMITS
    subagents: tuple[RoleModel, ...] = ()
    """Sub-agents that the session has a model for."""
    open_client: "OpenClient | None" = None
    """Opens the client of one of them."""
    ledger: Ledger = field(default_factory=Ledger)
    publish_cut_off: Callable[[Sequence[ModelCalled]], Awaitable[None]] | None = None
    """Gets what was asked by a step that is cancelled or breaks: it has no answer to say so."""
    library: "Library | None" = None
    """What may be looked up; None: the shipped documents and those of ``home``."""
