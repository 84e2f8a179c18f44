"""Sessions as the log has them: what outside authors may still read once nobody serves a session any more."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from ...agents.assembly import assembly_of
from ...bus import Bus
from ...graph.session_graph import SearchGraph
from ...schemas import InputError
from ...store import UnknownSession, log_path
from ..private_inputs import without_seeds
from ..recorded_session import read_session
from . import verdicts, views
from .answers import Refused
from .names import name, task_name
from .records import Finish, Leaderboard, NodeAnswer, TaskBrief, TaskRow


def unserved(session: str) -> str:
    """What to say of an open session whose process is gone."""
    return f"nobody serves session {session} just now: `kernelswarm resume {session}` goes on with it"


class RecordedSessions:
    """The sessions in the log of ``home``, or of the recorder on ``bus``. Nothing is changed in them."""

    def __init__(self, home: Path, bus: Bus | None = None) -> None:
        self._home = home
        self._bus = bus

    async def graph(self, session: str) -> SearchGraph:
        """The session as far as it is written down.

        Raises:
            InputError: the log has no such session.
            StoreError, BusError: the log cannot be read.
        """
        unknown = InputError(
            f"there is no session {session!r}: no search is running that has it, and the log of {self._home} has none "
            "of that name. `kernelswarm sessions` lists those of the log; `kernelswarm optimize PROBLEM --author "
            "outside` opens one"
        )
        if self._bus is None and not log_path(self._home).exists():
            raise unknown
        try:
            recorded = await read_session(self._home, session, bus=self._bus)
            return await asyncio.to_thread(recorded.graph)
        except UnknownSession as error:
            raise unknown from error

    async def tasks(self, session: str) -> list[TaskRow]:
        """Its tasks in order of planning. Errors: :meth:`graph`."""
        return views.rows(await self.graph(name(session, most=1).session))

    async def brief(self, task: str) -> TaskBrief:
        """Everything that was known to work on a task. Errors: :meth:`graph`, or there is no such task."""
        wanted = task_name(task)
        return views.brief(await self.graph(wanted.session), wanted.node)

    async def answer(self, task: str, *, wait_s: float = 0.0) -> NodeAnswer:
        """What is known of a node, source included; there is nothing to wait for. Errors: :meth:`graph`."""
        wanted = task_name(task)
        graph = await self.graph(wanted.session)
        answer = verdicts.known_node(graph, wanted.node)
        if graph.closed is not None or answer.state not in ("waiting", "judging"):
            return answer
        return replace(answer, summary=unserved(graph.session))

    async def assembly(self, task: str) -> str:
        """Machine code of a node's candidate, innermost loops first. Errors: :func:`.assembly.assembly_of`."""
        wanted = task_name(task)
        return await assembly_of(await self.graph(wanted.session), wanted.node, self._home, self._bus)

    async def leaderboard(self, session: str) -> Leaderboard:
        """The candidates of a session, best first. Errors: :meth:`graph`."""
        graph = await self.graph(name(session).session)
        board = views.leaderboard(graph)
        return board if graph.closed is not None else replace(board, detail=unserved(graph.session))

    async def finish(self, session: str, *, wait_s: float = 0.0) -> Finish:
        """How a session ended; there is nothing to wait for.

        Raises:
            Refused: it is open. Others: :meth:`graph`.
        """
        graph = await self.graph(name(session, most=1).session)
        if graph.closed is None:
            raise Refused(unserved(graph.session))
        return views.finish(graph)

    async def is_closed(self, session: str) -> bool:
        """Whether the log has the session's end."""
        try:
            return (await self.graph(session)).closed is not None
        except InputError:
            return False

    async def obstacle(self, session: str) -> str:
        """Why nothing can be done for a session that no search serves; empty where the log does not know it."""
        try:
            graph = await self.graph(session)
        except InputError:
            return ""
        if graph.closed is None:
            return unserved(session)
        detail = without_seeds(graph.closed.detail)
        way = f"`kernelswarm tasks leaderboard {session}` shows its candidates"
        return f"session {session} is closed: {detail}. {way}"
