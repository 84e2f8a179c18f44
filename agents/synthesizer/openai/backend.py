"""The backend that asks a model of OpenAI's, or of a server that speaks its format: vLLM, Ollama, SGLang, …"""

from typing import TYPE_CHECKING

from ..model.backend import ModelBackend
from ..model.settings import Settings, VendorFacts
from .rehearsed import ANSWER

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from ..model.wire import Wire

VENDOR = VendorFacts(
    name="openai",
    key_variable="OPENAI_API_KEY",
    headers_variable="OPENAI_CUSTOM_HEADERS",
    account_headers=("OpenAI-Organization", "OpenAI-Project"),
    url_variable="OPENAI_BASE_URL",
    url="https://api.openai.com/v1",
    model="gpt-6.1-sol",
    is_open=True,
)


class OpenAIBackend(ModelBackend):
    """Asks over the Chat Completions API, which other servers speak as well."""

    name = VENDOR.name
    vendor = VENDOR
    library = "openai"
    client = "AsyncOpenAI"
    rehearsed_answer = ANSWER

    def open_wire(self, sdk: "AsyncOpenAI", model: str, settings: Settings) -> "Wire":
        """One conversation."""
        from .completions import CompletionsWire

        return CompletionsWire(sdk, model, settings)
