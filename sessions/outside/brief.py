"""The page that a coding agent can be given as its only instruction."""

from importlib import resources


def agent_brief() -> str:
    """The page, as Markdown."""
    return resources.files(__package__).joinpath("agent-brief.md").read_text(encoding="utf-8")
