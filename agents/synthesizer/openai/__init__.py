"""A model of OpenAI's, or of any server that speaks its Chat Completions format. Importing this is cheap."""

from .backend import OpenAIBackend

__all__ = ["OpenAIBackend"]
