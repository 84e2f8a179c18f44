"""What a model's tools may ask of the rest of the swarm, over the bus. Tools see this and nothing else of it."""

from collections.abc import Mapping
from typing import Protocol

from ....schemas import CompileReport, Schema, VerifyReport


class Checked(Schema, frozen=True, kw_only=True):
    """What a draft came to on inputs that judge nobody."""

    compiled: CompileReport
    verified: VerifyReport | None = None
    """None if it does not compile, or was only compiled."""


class DeskError(Exception):
    """What was asked cannot be answered now; one sentence."""


class Desk(Protocol):
    """Answers a conversation's questions."""

    async def check(self, source: str, *, compile_only: bool) -> Checked:
        """Compile a draft, and try it on small inputs.

        Raises:
            DeskError: nobody checks.
        """
        ...

    async def assembly(self, node: str) -> str:
        """What matters most of the machine code of a node's candidate.

        Raises:
            DeskError: there is none to read.
        """
        ...

    async def ask(self, question: str, values: Mapping[str, str]) -> str:
        """The answer of the log to one of the questions that somebody has asked before, as a table.

        Raises:
            DeskError: the log cannot be asked.
        """
        ...
