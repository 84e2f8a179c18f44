"""Skills that come with the package: those of the kept sessions, for searches on like problems."""

import sys
from pathlib import Path

from msgspec.structs import replace

import given
from kernelswarm.knowledge import relevant_skills, shipped_skills
from kernelswarm.schemas import Pool, ProblemFacts, Skill, Work

sys.path.insert(0, str(Path(__file__).parent.parent / "histories"))

from ship_skills import taught


def test_the_files_hold_what_the_kept_sessions_taught() -> None:
    """Write them with ``python tests/histories/ship_skills.py``."""
    recorded = {skill.id: skill for skill in taught()}
    shipped = {skill.id: skill for skill in shipped_skills()}
    assert sorted(shipped) == sorted(recorded)
    for name, skill in shipped.items():
        original = recorded[name]
        assert skill == replace(original, text=skill.text, speedup=round(original.speedup, 3))
        assert skill.text.partition("\n# ")[2] == original.text.partition("\n# ")[2]


def facts_like(skill: Skill) -> ProblemFacts:
    read, written, flops = skill.sizes
    return given.facts(
        operators=skill.operators, dtype=skill.dtype, work=Work(read_bytes=read, write_bytes=written, flops=flops)
    )


def test_a_search_on_a_like_problem_sees_them_and_none_of_another_platform() -> None:
    for skill in shipped_skills():
        for platform in ("cpu", "nvidia", "amd"):
            pool = Pool(name="mine", platform=platform, languages=("triton",))
            relevant = relevant_skills(shipped_skills(), facts_like(skill), pool)
            assert (skill in relevant) is (platform == skill.platform)
            assert all(other.platform == platform for other in relevant)
