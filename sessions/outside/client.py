"""What an outside author does: list, claim, check, hand in, read the answer, give back. Everything is an event."""

import asyncio
import math
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from ...agents.assembly import assembly_of
from ...agents.synthesizer.model.extract import Rejected, file_in
from ...bus import Bus
from ...graph.session_graph import SearchGraph
from ...graph.tasks import MINUTES
from ...hardware.languages.loaders import with_loader
from ...hardware.sources.problem_files import LARGEST_CANDIDATE
from ...schemas import (
    FINISHED,
    BusError,
    CandidateChecked,
    CandidateProposed,
    CheckRequested,
    ClaimRequested,
    Event,
    InputError,
    TaskClaimed,
    TaskOpened,
    TaskRefused,
    TaskReleased,
    TaskSubmitted,
    seal,
    sha256,
)
from ..session import request_stop
from . import verdicts, views
from .answers import STARTING, Refused, Unserved, answered, gone_on_from, judged
from .following import Followed, NotOnTheBus, following
from .names import Name, lease_name, name, task_name
from .recorded import RecordedSessions
from .records import CheckAnswer, Finish, HandInAnswer, Leaderboard, NodeAnswer, Release, TaskBrief, TaskRow
from .research import THIS_SESSION, DocumentHit, HistoryTable, Question, history, library_of, search_knowledge, tried_in

SERVED_S = 20.0
"""How long a session may take to answer a request; that takes milliseconds while somebody serves it."""

CHECK_S = 300.0
"""How long a check may take: files that compile for themselves take half a minute, and it waits for timing."""

PLANNED_S = 2.0
"""How long the planner may take to go on from a verdict; sometimes it has nothing to say."""

LOOK_AGAIN_S = 2.0
"""How often somebody who waits for a task looks for new sessions, and how soon a refused request is made again."""


class OutsideAuthor:
    """One author's view of every open session on a bus. Methods may run side by side."""

    def __init__(self, bus: Bus, home: Path, agent: str) -> None:
        """``agent`` names the author for people; rights hang on leases alone."""
        self.agent = agent
        self._bus = bus
        self._home = home
        self._recorded = RecordedSessions(home, bus)

    async def tasks(self, session: str = "") -> list[TaskRow]:
        """Tasks of ``session``, or of every open session, the newest session first.

        Raises:
            InputError: there is no such session.
        """
        sessions = [name(session, most=1).session] if session else await self._sessions()
        return [row for session in sessions for row in views.rows(await self._graph(session))]

    async def brief(self, task: str) -> TaskBrief:
        """Everything that is needed to work on a task, or on the task of a lease.

        Raises:
            InputError: there is no such task.
        """
        wanted = task_name(task)
        return views.brief(await self._graph(wanted.session), wanted.node)

    async def claim(self, wanted: str = "", *, minutes: float = MINUTES, wait_s: float = 0.0) -> TaskBrief:
        """Claim a task, the newest free one of a session, or of any session; the name of a lease renews that.

        Args:
            wanted: ``SESSION``, ``SESSION/NODE``, ``SESSION/NODE/N`` or empty.
            minutes: How long the lease shall last.
            wait_s: How long to wait for a task to become free, where none is.

        Raises:
            InputError: there is no such session, or the time makes no sense.
            Refused: no task can be had.
            Unserved: nobody answers for the session.
        """
        if not 0 < minutes < math.inf:
            raise InputError(f"minutes {minutes:g}: a lease lasts some time above 0")
        target = name(wanted) if wanted else Name("")
        deadline = time.monotonic() + (0.0 if target.number else wait_s)
        # A request is an event, and so is its refusal: one that waits listens, and asks where a task is free.
        while free := await self._freed(target, deadline):
            if isinstance(claimed := await self._claimed_from(free, target, minutes), TaskBrief):
                return claimed
            await asyncio.sleep(min(LOOK_AGAIN_S, max(0.0, deadline - time.monotonic())))
        claimed = await self._claimed_from([target.session] if wanted else await self._sessions(), target, minutes)
        if isinstance(claimed, TaskBrief):
            return claimed
        raise claimed

    async def check(self, lease: str, source: str) -> CheckAnswer:
        """Compile ``source`` and try it on small inputs; the same file under the same lease is checked once.

        Raises:
            Refused: the lease is over, or has no check left.
            Unserved: nobody answers.
        """
        held = lease_name(lease)
        source = candidate_text(source)
        request = CheckRequested(source=source, lease=lease)
        async with following(self._bus, self._home, held.session) as followed:
            id = await self._publish(request, followed, held.node, f"{lease}/{sha256(source)}")
            _, checked = await answered(followed, id, CandidateChecked, CHECK_S)
            return verdicts.check_answer(followed.graph, lease, checked)

    async def submit(self, lease: str, source: str, rationale: str = "", *, wait_s: float = 0.0) -> HandInAnswer:
        """Hand ``source`` in under ``lease``, and wait for the verdict up to ``wait_s`` seconds.

        The same file under the same lease is one hand-in, however often it is sent: the answer is the same.

        Raises:
            InputError: there is no such session, or the file is too large.
            Unserved: nobody answers; the file is on the bus all the same.
        """
        held = lease_name(lease)
        source = candidate_text(source)
        event = TaskSubmitted(lease=lease, source=source, sha256=sha256(source), rationale=rationale)
        async with following(self._bus, self._home, held.session) as followed:
            id = await self._publish(event, followed, held.node, f"{lease}/{event.sha256}")
            try:
                node, _ = await answered(followed, id, CandidateProposed, SERVED_S)
            except Refused as refusal:
                return HandInAnswer(lease=lease, accepted=False, reason=str(refusal), free=_free(followed.graph))
            if await followed.until(judged(node), wait_s):
                await followed.until(gone_on_from(node), PLANNED_S)
            reason = "" if node == held.node else f"lease {lease} was over: this is {held.session}/{node} now"
            answer = verdicts.node_answer(followed.graph, node)
            return HandInAnswer(lease=lease, accepted=True, reason=reason, answer=answer, free=_free(followed.graph))

    async def answer(self, task: str, *, wait_s: float = 0.0) -> NodeAnswer:
        """What is known of a node by now, source included; waits for its verdict up to ``wait_s`` seconds.

        Raises:
            InputError: there is no such node.
        """
        wanted = task_name(task)
        try:
            async with following(self._bus, self._home, wanted.session) as followed:
                verdicts.known_node(followed.graph, wanted.node)
                await followed.until(judged(wanted.node), wait_s)
                return verdicts.known_node(followed.graph, wanted.node)
        except NotOnTheBus:
            return await self._recorded.answer(task)

    async def assembly(self, task: str) -> str:
        """Machine code of a node's candidate, innermost loops first. Errors: :func:`.assembly.assembly_of`."""
        wanted = task_name(task)
        return await assembly_of(await self._graph(wanted.session), wanted.node, self._home, self._bus)

    async def release(self, lease: str) -> Release:
        """Give a task back.

        Raises:
            InputError: there is no such session.
        """
        held = lease_name(lease)
        async with following(self._bus, self._home, held.session) as followed:
            id = await self._publish(TaskReleased(lease=lease), followed, held.node, lease)
            await followed.until(lambda now: id in now.graph.tasks.rulings, SERVED_S)
            outcomes = [ruling.outcome for ruling in followed.graph.tasks.rulings.get(id, ())]
            reason = next((outcome.reason for outcome in outcomes if isinstance(outcome, TaskRefused)), "")
            return Release(lease=lease, released=not reason, reason=reason)

    async def finish(self, session: str, *, wait_s: float = 0.0) -> Finish:
        """Say that nothing more comes: free tasks are withdrawn, what there is gets confirmed, and the session closes.

        What is held may still be handed in. Waits for the close up to ``wait_s`` seconds.

        Raises:
            InputError: there is no such session.
            Refused: nobody serves it.
        """
        wanted = name(session, most=1).session
        try:
            async with following(self._bus, self._home, wanted) as followed:
                graph = followed.graph
                if graph.closed is None and graph.stop is None:
                    await request_stop(self._bus, wanted, followed.pool, graph.opened_id, FINISHED)
                await followed.until(lambda now: bool(now.graph.stop or now.graph.closed), SERVED_S)
                await followed.until(lambda now: now.graph.closed is not None, wait_s)
                return views.finish(followed.graph)
        except NotOnTheBus:
            return await self._recorded.finish(wanted)

    async def leaderboard(self, session: str) -> Leaderboard:
        """The candidates of a session, best first.

        Raises:
            InputError: there is no such session.
        """
        wanted = name(session).session
        try:
            async with following(self._bus, self._home, wanted) as followed:
                return views.leaderboard(followed.graph)
        except NotOnTheBus:
            return await self._recorded.leaderboard(wanted)

    async def search_knowledge(self, task: str, words: str) -> list[DocumentHit]:
        """The documents on the session's chip and operators that answer ``words`` best; the look-up is an event.

        Raises:
            InputError: there is no such session.
        """
        wanted = task_name(task)
        async with following(self._bus, self._home, wanted.session) as followed:
            library = library_of(followed.graph, self._home)
            hits, retrieved = search_knowledge(followed.graph, library, wanted.node, words)
            await self._publish(retrieved, followed, wanted.node, f"{wanted.node}/{secrets.token_hex(8)}")
            return hits

    async def read_document(self, task: str, path: str) -> str:
        """A document's text.

        Raises:
            InputError: there is none of that path for the session's pool.
        """
        document = library_of(await self._graph(task_name(task).session), self._home).read(path)
        return f"# {document.title}\n\n{document.text}"

    async def history(self, asked: Question, operator: str = "", session: str = "") -> HistoryTable:
        """What all sessions of the log tried, or this ``session``, and what came of it.

        Raises:
            InputError: there is no such session, or none is named. Others: :func:`.research.history`.
        """
        if asked == THIS_SESSION and not session:
            raise InputError(f"{THIS_SESSION} needs the session: SESSION, or a task or lease of it")
        if asked == THIS_SESSION:
            return tried_in(await self._graph(name(session).session))
        return await history(self._bus, self._home, asked, operator)

    async def _graph(self, session: str) -> SearchGraph:
        try:
            async with following(self._bus, self._home, session) as followed:
                return followed.graph
        except NotOnTheBus:
            return await self._recorded.graph(session)

    async def _sessions(self) -> list[str]:
        try:
            return list(reversed(await self._bus.open_sessions(TaskOpened)))
        except BusError as error:
            raise BusError(f"no session can be seen yet ({error}); {STARTING}") from error

    async def _sessions_so_far(self) -> list[str]:
        """The same for somebody who waits; none where a busy server does not answer, which is asked again."""
        try:
            return await self._sessions()
        except BusError:
            if self._bus.is_lost:
                raise
            return []

    async def _claimed_from(self, sessions: Sequence[str], target: Name, minutes: float) -> TaskBrief | Exception:
        """The brief of the first task that can be had; else why the last session gave none."""
        refusal: Exception = Refused(
            "no open session waits for outside authors: `kernelswarm optimize PROBLEM --author outside` opens one; "
            + STARTING
        )
        for session in sessions:
            try:
                return await self._claim_in(session, target, minutes)
            except (Refused, Unserved) as error:
                refusal = error
        return refusal

    async def _claim_in(self, session: str, target: Name, minutes: float) -> TaskBrief:
        lease = "/".join(target) if target.number else ""
        request = ClaimRequested(agent=self.agent, minutes=minutes, task="" if lease else target.node, lease=lease)
        async with following(self._bus, self._home, session) as followed:
            id = await self._publish(request, followed, "", secrets.token_hex(8))
            node, _ = await answered(followed, id, TaskClaimed, SERVED_S)
            return views.brief(followed.graph, node)

    async def _freed(self, target: Name, deadline: float) -> list[str]:
        """Open sessions with a task that ``target`` asks for, as soon as there is one; empty once the time is over, or
        where none can come any more."""
        waits: dict[str, asyncio.Task[bool]] = {}
        try:
            while (left := deadline - time.monotonic()) > 0:
                for session in [target.session] if target.session else await self._sessions_so_far():
                    if session not in waits:
                        waits[session] = asyncio.ensure_future(self._is_freed(session, target.node, left))
                pending = [wait for wait in waits.values() if not wait.done()]
                if not pending and target.session:
                    break
                if pending:
                    pause = left if target.session else min(left, LOOK_AGAIN_S)
                    await asyncio.wait(pending, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(min(left, LOOK_AGAIN_S))
                if free := [session for session, wait in waits.items() if wait.done() and wait.result()]:
                    return free
            return []
        finally:
            for wait in waits.values():
                wait.cancel()
            await asyncio.gather(*waits.values(), return_exceptions=True)

    async def _is_freed(self, session: str, node: str, wait_s: float) -> bool:
        """Follow ``session`` until a task (or the task ``node``) is free; False if the time is over or none will be."""

        def is_over(now: Followed) -> bool:
            task = now.graph.tasks.tasks.get(node)
            return bool(now.graph.stop or now.graph.closed or (task and task.outcome))

        def is_free(now: Followed) -> bool:
            return not is_over(now) and any(node in ("", task.node) for task in now.graph.tasks.free())

        try:
            async with following(self._bus, self._home, session) as followed:
                await followed.until(lambda now: is_over(now) or is_free(now), wait_s)
                return is_free(followed)
        except NotOnTheBus:
            # Another session may have a task; asking for one of this will say that it is gone.
            return False

    async def _publish(self, event: Event, followed: Followed, node: str, purpose: str) -> str:
        """Publish a request; its id. One with the same ``purpose`` is the same request, however often it is made."""
        graph = followed.graph
        envelope = seal(
            event,
            session=graph.session,
            pool=followed.pool,
            node=node if node in graph.tasks.tasks else "",
            cause=f"{graph.opened_id}/{purpose}",
            agent="user",
            worker=self.agent,
            at_ns=time.time_ns(),
        )
        await self._bus.publish(envelope)
        return envelope.id


def _free(graph: SearchGraph) -> tuple[str, ...]:
    return tuple(f"{graph.session}/{task.node}" for task in graph.tasks.free())


def candidate_text(source: str) -> str:
    """The file as it is judged: taken out of Markdown, and the loader of its native code put in where it was left out.

    Raises:
        InputError: it is empty or too large, or Markdown with another number of files than one.
    """
    if not source.strip():
        raise InputError("the candidate is empty: hand in a Python file")
    if (size := len(source.encode())) > LARGEST_CANDIDATE:
        raise InputError(f"the candidate has {size} bytes; it may have {LARGEST_CANDIDATE}")
    try:
        return with_loader(file_in(source))
    except Rejected as error:
        raise InputError(f"the candidate is no Python file, and as Markdown it cannot be read: {error}") from None
