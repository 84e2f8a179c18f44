"""What a vendor's file must offer: its request body, one try, and what went wrong."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from autogen_core.models import LLMMessage
from autogen_core.tools import ToolSchema

from .faults import Fault
from .reply import Reply, Usage


class Wire(Protocol):
    """One conversation in a vendor's format, over its SDK. It may keep what its own answers must be sent back with."""

    def body(
        self, messages: Sequence[LLMMessage], tools: Sequence[ToolSchema], schema: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The request: no identifier and no time stamp of AutoGen's, what stays the same first.

        With ``schema`` the text of the answer is to be JSON that follows it.
        """
        ...

    async def send(self, body: dict[str, Any]) -> Reply:
        """One try, streamed. Raises whatever the SDK raises, BrokenStream or MalformedAnswer."""
        ...

    def streamed(self) -> Usage | None:
        """Tokens of the last try as far as its answer came, for one that broke off; None if no answer began."""
        ...

    def keep(self, reply: Reply) -> None:
        """Remember what a later request must send back of ``reply``."""
        ...

    def fault(self, error: Exception) -> Fault | None:
        """The fault behind an exception of :meth:`send`; None if it is a defect of ours."""
        ...
