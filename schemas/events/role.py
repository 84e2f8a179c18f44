"""Roles of the ring that ask a model, and what each of them made of the answer."""

from ..base import Schema
from .base import Event


class RoleModel(Schema, frozen=True, kw_only=True):
    """A role of a session that asks a model; its rules stay the fallback."""

    role: str
    """``analyst``, ``planner`` or ``distiller``."""
    backend: str
    """Whose format its server speaks: ``anthropic`` or ``openai``."""
    model: str
    """Model that is asked."""
    base_url: str = ""
    """Address of the server, without credentials; empty: the worker's environment says it."""


class RoleDecided(Event, frozen=True, kw_only=True, tag="role.decided.v1"):
    """A role asked a model. Stands after the requests (ModelCalled), before what the role says."""

    role: str
    backend: str
    model: str
    by_model: bool
    """Whether the model's answer is what the role says; else its rules are."""
    reason: str = ""
    """Why: the model's words, or what was wrong with its answer."""
    fault: str = ""
    """Why it could not be asked (a limit, no key, the server is away); empty if it could."""
