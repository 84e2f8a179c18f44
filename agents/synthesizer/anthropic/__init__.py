"""A model of Anthropic's, or of any server that speaks its Messages format. Importing this is cheap."""

from .backend import AnthropicBackend

__all__ = ["AnthropicBackend"]
