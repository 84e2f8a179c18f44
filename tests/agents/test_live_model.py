"""A real model writes a kernel. It runs only with a key, and costs a few cents:

KERNELSWARM_LIVE=anthropic:MODEL ANTHROPIC_API_KEY=… .venv/bin/pytest tests/agents/test_live_model.py
"""

import os
from pathlib import Path

import pytest

import given
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import CandidateVerified, ModelCalled, SessionClosed, SkillDistilled
from kernelswarm.sessions.recorded_session import read_session
from kernelswarm.sessions.replay_authors import replay_authors
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.store import run_sql

AUTHOR, _, MODEL = os.environ.get("KERNELSWARM_LIVE", "").partition(":")
KEY = os.environ.get(f"{AUTHOR.upper()}_API_KEY", "")
MOST_DOLLARS = 1.0


@pytest.mark.skipif(not (MODEL and KEY), reason="KERNELSWARM_LIVE names no author:model, or there is no key for it")
async def test_a_real_model_writes_a_kernel_that_is_judged_and_replays(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (tmp_path / "small.py").write_text(given.SOURCE)
    options = SearchOptions(budget=1, synthesizer=AUTHOR, model=MODEL, max_cost=MOST_DOLLARS)
    async with searching(load_problem(tmp_path / "small.py"), "bare", options, home=tmp_path) as running:
        session = running.session
        events = [event async for _, event in running.events()]
    calls = [event for event in events if isinstance(event, ModelCalled)]
    assert calls and not any(call.error for call in calls), [call.error for call in calls]
    assert sum(call.cost or 0.0 for call in calls) <= MOST_DOLLARS
    assert any(isinstance(event, CandidateVerified) for event in events), "what it wrote was not judged"
    assert isinstance(events[-1], SessionClosed | SkillDistilled)
    replayed = await replay_authors(await read_session(tmp_path, session))
    assert (replayed.prompts_changed, replayed.candidates_changed) == ((), ()) and replayed.prompts
    rows = await run_sql(tmp_path, "SELECT count(*) FROM events WHERE body::VARCHAR LIKE ?", params=(f"%{KEY}%",))
    assert rows.rows[0][0] == 0, "its key is in the log"
