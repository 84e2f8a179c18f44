"""A language model as synthesizer: AutoGen's AssistantAgent over the Anthropic SDK. Importing this is cheap."""

from .backend import AnthropicBackend

__all__ = ["AnthropicBackend"]
