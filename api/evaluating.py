"""Judging a kernel that somebody wrote, and putting winners into models."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agents.synthesizer.backend import GIVEN
from ..hardware.languages.assembly import language_taken
from ..hardware.languages.compiling import read_candidate
from ..hardware.pools.pool_files import find_pool
from ..schemas import InputError
from ..sessions.home import kernelswarm_home
from ..sessions.results import Evaluation, evaluation_of
from ..sessions.search import session_on
from ..sessions.search_context import search_context
from ..sessions.search_options import SearchOptions
from .progress import progress, step_text
from .questions import blocking
from .searching import errors_of, problem_of

if TYPE_CHECKING:
    from .applying import Applied
    from .optimized import Optimized


def evaluate(
    problem: Callable[..., Any] | str | Path,
    candidate: str | Path,
    *,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    pool: str = "cpu",
    against: str = "best",
    measure: str = "device",
    nats: str = "",
    home: str | Path | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge a kernel: what ``kernelswarm evaluate --json`` prints, as an object.

    Args:
        problem: the path of a problem file, or a function or ``nn.Module``.
        candidate: path of the kernel's file: ``kernel(...)`` or ``class ModelNew``.
        inputs: the operator's arguments; not with a path.
        pool: hardware pool.
        against: what a win is measured against: ``best`` (of all baselines), ``compile`` or ``eager``.
        measure: which number makes a win on an accelerator: ``device``, or ``call``, which needs both.
        nats: URL of a cluster; without it a server of this process's own is used.
        home: where log and caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: as for :func:`optimize`.

    Raises:
        InputError: a file, the operator or an option cannot be used.
        BusError: the cluster cannot be reached.
    """
    traced, source = problem_of(problem, inputs), read_candidate(Path(candidate))
    root = kernelswarm_home(home)
    place = find_pool(pool, root)
    language_taken(source, place, Path(candidate))
    options = SearchOptions(
        budget=1, synthesizer=GIVEN, candidates=(source,), against=against, measure=measure, confirmations=1
    )
    options.check()
    options.check_pool(place)

    async def judge() -> Evaluation:
        with progress(on_notice) as say, errors_of(traced):
            async with (
                search_context(traced.problem, place, home=root, nats=nats, on_notice=say) as context,
                session_on(context, options) as search,
            ):
                async for _, event in search.events():
                    if text := step_text(event, search.graph):
                        say(text)
                return evaluation_of(search.graph, pool)

    return blocking(judge())


def apply(model: Any, result: "Optimized", where: str = "*", *, best: bool = False) -> "Applied":
    """Let a winner compute in a model, at every submodule that is like the one that was searched.

    Each is checked first: class, attributes, parameters, and what the kernel computes on inputs as searched.
    Parameters and buffers stay where they are, so training goes on and ``state_dict`` keeps its keys. Calls that need
    gradients, or that are not like the one that was searched, go to the module's own ``forward``.

    Args:
        model: an ``nn.Module``.
        result: what :func:`optimize` returned for one of its submodules, or for a module like them.
        where: pattern of qualified names, ``layers.*.norm``; ``*`` stands for any text, dots included.
        best: put in the best correct kernel although it is no win.

    Returns:
        A handle: ``names`` of the submodules, ``skipped`` ones with the reason, and ``remove()``, which leaving a
        ``with`` block calls.

    Raises:
        InputError: there is no win, or no submodule is like the one that was searched. Nothing was changed.
    """
    if not hasattr(result, "put_into"):
        raise InputError(f"{result!r} is no result of kernelswarm.optimize: give what it returned")
    return result.put_into(model, where, best=best)


__all__ = ["apply", "evaluate"]
