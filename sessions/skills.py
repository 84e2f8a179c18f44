"""What earlier sessions taught that a new one can use, those that come with the package among them."""

import asyncio
from pathlib import Path

import structlog

from ..bus import Bus
from ..knowledge import relevant_skills, shipped_skills
from ..schemas import Pool, ProblemFacts, Skill, StoreError, decode
from ..store import run_sql

MOST_SKILLS = 2000
"""Newest skills that are looked through for one search."""

KNOWN_SKILLS = """
    SELECT json_extract(body, '$.skill') FROM events WHERE tag = 'skill.distilled.v1' ORDER BY seq DESC
"""

log = structlog.get_logger(__name__)


async def skills_for(home: Path, bus: Bus, facts: ProblemFacts, pool: Pool) -> list[Skill]:
    """What earlier sessions on like problems taught; of a log that cannot be read nothing is known."""
    try:
        rows = (await run_sql(home, KNOWN_SKILLS, bus=bus, max_rows=MOST_SKILLS)).rows
    except StoreError as error:
        log.warning("no skills of earlier sessions: the log cannot be read", reason=str(error))
        rows = ()

    def nearest() -> list[Skill]:
        own = [decode(text, Skill) for (text,) in rows]
        return list(relevant_skills([*own, *shipped_skills()], facts, pool))

    return await asyncio.to_thread(nearest)
