"""Who writes a session's candidates."""

from ..base import Schema
from .base import Event

GENERATOR = "generator"
"""What users call the author that needs no model; events and the log say ``playbook``."""

USER_NAMES = {"playbook": GENERATOR}
"""Names of backends for users, where they are other ones than in events."""


def user_name(backend: str) -> str:
    """What users call a backend."""
    return USER_NAMES.get(backend, backend)


def user_names(text: str) -> str:
    """Authors as events have them with their shares, as users call them: ``generator:1,anthropic:2``."""
    parts = (part.partition(":") for part in text.split(","))
    return ",".join(f"{user_name(name)}{colon}{share}" for name, colon, share in parts)


class AuthorShare(Schema, frozen=True, kw_only=True):
    """One of several authors, and how many of the nodes are its own."""

    name: str
    """Backend, as in NodePlanned: ``playbook`` (the generator), ``anthropic``, ``openai``, …"""
    share: int = 1
    """Nodes out of the sum of all shares, at least 1."""
    model: str = ""
    """Model that it asks; empty for its default, and for authors that ask none."""
    base_url: str = ""
    """Address of the server that it asks, without credentials; empty: the worker's environment says it."""


class AuthorBenched(Event, frozen=True, kw_only=True, tag="author.benched.v1"):
    """One of several authors gets no more nodes of the session: its share goes to the others."""

    author: str
    """Backend, as in NodePlanned."""
    reason: str
    """Why its last node has no candidate."""
    exhausted: bool = False
    """Whether it has nothing new to propose, or no money left; else it failed on and on."""
    failures: int = 0
    """Its nodes in a row without a candidate."""

    @property
    def sentence(self) -> str:
        """For people."""
        failed = f"after {self.failures} nodes in a row without a candidate" if not self.exhausted else "any more"
        return f"the author {user_name(self.author)} gets no nodes {failed}: {self.reason}"
