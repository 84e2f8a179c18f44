"""The skill distiller's answer."""

from ..base import Schema
from .base import Event
from .candidate import Config


class Skill(Schema, frozen=True, kw_only=True):
    """What a session taught: a document with its evidence, found again by later sessions on like problems."""

    id: str
    """``<problem>-<first 12 of a hash of its content>``."""
    title: str
    pool: str
    platform: str
    operators: tuple[str, ...]
    """ATen operators of the problem it was learned on, sorted."""
    dtype: str
    sizes: tuple[int, ...]
    """Bytes read and written and operations at the main shape."""
    text: str
    """Markdown with front matter: when to use, what to do, the numbers."""
    recipes: tuple[Config, ...] = ()
    """Tunable settings to try first, best first."""
    speedup: float = 0.0
    """Confirmed speedup of the best against the best baseline."""
    evidence: tuple[str, ...] = ()
    """Ids of the events it rests on."""


class SkillDistilled(Event, frozen=True, kw_only=True, tag="skill.distilled.v1"):
    """A finished session left a skill."""

    skill: Skill
