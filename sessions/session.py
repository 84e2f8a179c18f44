"""A session from the outside: how it is opened and stopped."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from ..agents.synthesizer.authors import asks_a_model, spelled
from ..agents.synthesizer.request import check_room
from ..bus import Bus
from ..schemas import (
    Envelope,
    Event,
    HardwareFacts,
    Origin,
    Pool,
    Problem,
    ProblemFacts,
    SeedKernel,
    SessionOpened,
    Skill,
    StopRequested,
    seal,
)
from .search_options import SearchOptions

HOPELESS_BELOW = 0.9
"""A speedup whose interval ends below this will not reach 1 when it is measured again."""
FAILURES_ALIKE = 3
"""Syntheses in a row that fail for one reason, after which a search stops: a fourth would fail as well."""

SUFFIX_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without letters that are read as digits: session ids are typed by people."""


def new_session_id(problem: str) -> str:
    """A short readable id: the problem's name and five random letters."""
    return f"{problem[:32]}-{''.join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))}"


async def open_session(
    bus: Bus,
    session: str,
    problem: Problem,
    facts: ProblemFacts,
    pool: Pool,
    hardware: HardwareFacts,
    options: SearchOptions,
    *,
    skills: Sequence[Skill] = (),
    origin: Origin | None = None,
    seed_kernels: Sequence[SeedKernel] = (),
    version: str = "",
    spent_s: float = 0.0,
    home: Path | None = None,
) -> tuple[int, Envelope]:
    """Publish the session's first event; its stream sequence and envelope.

    ``spent_s`` of its minutes are over. ``home`` has the prices and manuals that decide how long a problem may be.

    Raises:
        InputError: the problem is too long for the prompt of an author that asks a model.
    """
    event = SessionOpened(
        problem=problem,
        facts=facts,
        pool=pool,
        hardware=hardware,
        budget=options.budget,
        seed=options.seed,
        policy=options.policy,
        policy_options=options.policy_options | ({"inject": options.inject} if seed_kernels else {}),
        minutes=options.minutes,
        reserve=options.reserve(len(facts.timed)),
        idle=options.idle or None,
        target=options.target,
        against=options.against,
        measure=options.measure,
        confirmations=options.confirmations,
        synthesizer=spelled(options.authors),
        model=options.model,
        authors=options.authors,
        roles=options.roles,
        base_url=options.base_url,
        max_cost=options.max_cost,
        max_tokens=options.max_tokens,
        language=options.language or pool.languages[0],
        origin=origin,
        seeds=tuple(dict.fromkeys(kernel.session for kernel in seed_kernels)),
        seed_kernels=tuple(seed_kernels),
        skills=tuple(skills),
        candidates=options.candidates,
        evaluation=options.is_evaluation,
        failures_alike=FAILURES_ALIKE,
        # The one candidate of an evaluation is timed as a user would, whatever came of it.
        hopeless_below=0.0 if options.is_evaluation else HOPELESS_BELOW,
        cautious=True,
        heeds_files=True,
        awaits_hand_ins=True,
        closer_diagnoses=True,
        trusts_finalists=True,
        awaits_verdicts=True,
        compares_late=True,
        passes_over_slower=True,
        reads_device_time=True,
        asks_by_problem=True,
        names_one_limit=True,
        opens_tasks=True,
        heeds_authors=True,
        tells_bandwidths=True,
        tells_contract=True,
        grows_with_context=True,
        structures_answers=True,
        heeds_interrupts=True,
        names_worst_shapes=True,
        explains_losses=True,
        names_roofline=True,
        forgives_withdrawn=True,
        weighs_lookups=True,
        trial_nodes=FAILURES_ALIKE if len(options.authors) == 1 and asks_a_model(options.synthesizer) else 0,
        spent_s=round(spent_s, 1),
        version=version,
    )
    if home is not None:
        await asyncio.to_thread(check_room, event, home)
    envelope = said_by_user(event, session, pool.name)
    return await bus.publish(envelope), envelope


async def request_stop(bus: Bus, session: str, pool: str, opened_id: str, reason: str) -> None:
    """Ask a session to end: ``minutes`` lets it confirm its finalists, ``deadline`` and ``interrupted`` end it at
    once."""
    await bus.publish(said_by_user(StopRequested(reason=reason), session, pool, cause=f"{opened_id}/{reason}"))


def said_by_user(event: Event, session: str, pool: str, cause: str = "") -> Envelope:
    """An event that comes from outside the ring."""
    return seal(
        event, session=session, pool=pool, node="", cause=cause, agent="user", worker="user", at_ns=time.time_ns()
    )
