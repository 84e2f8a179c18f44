"""The backend that asks a language model of Anthropic's, or of any server that speaks its Messages format."""

from typing import TYPE_CHECKING

from ..model.backend import ModelBackend
from ..model.settings import Settings, VendorFacts

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

    from ..model.wire import Wire

VENDOR = VendorFacts(
    name="anthropic",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    url="https://api.anthropic.com",
    model="claude-opus-5-5",
)


class AnthropicBackend(ModelBackend["AsyncAnthropic"]):
    """Asks over the Messages API."""

    name = VENDOR.name
    vendor = VENDOR
    library = "anthropic"

    def open_sdk(self, settings: Settings) -> "AsyncAnthropic":
        """Without retries: those are ours, each try is an event, and the SDK would hide all but the last."""
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(
            api_key=settings.key or "none", base_url=settings.url, timeout=settings.timeout_s, max_retries=0
        )

    def open_wire(self, sdk: "AsyncAnthropic", model: str, settings: Settings) -> "Wire":
        """One conversation."""
        from .messages import MessagesWire

        return MessagesWire(sdk, model, settings)
