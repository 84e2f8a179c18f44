"""The backend that asks a language model of Anthropic's, or of any server that speaks its Messages format."""

from typing import TYPE_CHECKING

from ..model.backend import ModelBackend
from ..model.settings import Settings, VendorFacts
from .rehearsed import ANSWER

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

    from ..model.wire import Wire

VENDOR = VendorFacts(
    name="anthropic",
    key_variable="ANTHROPIC_API_KEY",
    headers_variable="ANTHROPIC_CUSTOM_HEADERS",
    url_variable="ANTHROPIC_BASE_URL",
    url="https://api.anthropic.com",
    model="claude-opus-5-5",
)


class AnthropicBackend(ModelBackend):
    """Asks over the Messages API."""

    name = VENDOR.name
    vendor = VENDOR
    library = "anthropic"
    client = "AsyncAnthropic"
    rehearsed_answer = ANSWER

    def open_wire(self, sdk: "AsyncAnthropic", model: str, settings: Settings) -> "Wire":
        """One conversation."""
        from .messages import MessagesWire

        return MessagesWire(sdk, model, settings)
