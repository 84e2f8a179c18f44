"""Writes what the sessions of outside authors taught into the package: a file a skill.

python tests/histories/ship_skills.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "support"))

import histories  # noqa: E402
from msgspec.structs import replace  # noqa: E402

from kernelswarm.knowledge.shipped_skills import FOLDER, written  # noqa: E402
from kernelswarm.schemas import NodeDiagnosed, Skill, SkillDistilled  # noqa: E402

AUTHORS = "-authors"
"""Histories whose names end so are of engineers and models who wrote kernels for problems of their own."""


_EFFECTS = re.compile(r"## What mattered\n.*?(?=## )", re.DOTALL)
"""Settings' effects: one pair of candidates each in sessions as short as these, which is luck in part."""


def taught() -> list[Skill]:
    """The skills of those histories that beat the best baseline, without their settings' effects.

    None of a kernel that was slower than a baseline in ordinary processes, whatever the judge's time of it was.
    """
    names = [name for name in histories.names() if name.endswith(AUTHORS)]
    events = [e.event() for name in names for envelopes in histories.read(name).values() for e in envelopes]
    diagnosed = [event for event in events if isinstance(event, NodeDiagnosed) and event.speedup and event.ordinary]
    slower = {event.speedup.median for event in diagnosed if event.ordinary.median < 1.0}
    skills = [event.skill for event in events if isinstance(event, SkillDistilled) and event.skill.speedup > 1.0]
    skills = [skill for skill in skills if skill.speedup not in slower]
    return [replace(skill, text=_EFFECTS.sub("", skill.text)) for skill in skills]


def main() -> None:
    """Replace the files."""
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for skill in taught():
        (FOLDER / f"{skill.id}.md").write_text(written(skill), encoding="utf-8")


if __name__ == "__main__":
    main()
