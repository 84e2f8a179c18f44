"""Skills that come with the package: what outside authors taught in the sessions that ``tests/histories`` keeps.

A file each: a skill's text, whose head has all that is not in it elsewhere.
"""

import functools
import json
from pathlib import Path

from ..schemas import Skill
from . import front_matter

FOLDER = Path(__file__).parent / "shipped_skills"


@functools.cache
def shipped_skills() -> tuple[Skill, ...]:
    """All of them, by id."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.md")))


def written(skill: Skill) -> str:
    """The text of a file that holds ``skill``."""
    head, body = front_matter.split(skill.text, skill.id)
    recipes = [json.dumps(recipe, sort_keys=True) for recipe in skill.recipes]
    return front_matter.join({**head, **({"recipes": recipes} if recipes else {})}, body)


def _read(path: Path) -> Skill:
    text = path.read_text(encoding="utf-8")
    head, _ = front_matter.split(text, path.name)

    def words(key: str) -> tuple[str, ...]:
        value = head.get(key) or []
        return tuple(value) if isinstance(value, list) else (str(value),)

    return Skill(
        id=path.stem,
        title=str(head["title"]),
        pool=str(head["pool"]),
        platform=str(head["platform"]),
        operators=words("operators"),
        dtype=str(head["dtype"]),
        sizes=tuple(map(int, words("sizes"))),
        text=text,
        recipes=tuple(json.loads(recipe) for recipe in words("recipes")),
        speedup=float(str(head["speedup"])),
        evidence=words("evidence"),
    )
