"""The public API: search for a faster kernel for a live function, a module or a problem file."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .agents.home import kernelswarm_home
from .agents.search import searching
from .agents.session import SearchOptions, SearchResult
from .hardware.from_python import Traced, trace
from .hardware.problem_files import load_problem
from .schemas import InputError, Interval

T = TypeVar("T")


@dataclass(frozen=True)
class Optimized:
    """What a search came to, with the best kernel ready to call."""

    result: SearchResult
    """Everything that was measured."""
    parameters: tuple[Any, ...] = ()
    """Weights and constants of the traced operator; the kernel takes them after the inputs."""

    @property
    def session(self) -> str:
        """Id of the session, for ``kernelswarm show`` and SQL."""
        return self.result.session

    @property
    def win(self) -> bool:
        """Whether the kernel is faster than the best baseline, interval and all."""
        return self.result.win

    @property
    def source(self) -> str:
        """The best kernel's file; empty if no candidate was right."""
        return self.result.source

    @property
    def speedup(self) -> Interval | None:
        """Against the best of eager, ``torch.compile`` and max-autotune."""
        return self.result.speedup

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """The best correct kernel as a callable with the operator's inputs; loads it into this process.

        Raises:
            InputError: no candidate was right.
        """
        if not self.source:
            raise InputError(f"session {self.session} found no correct kernel: {self.result.detail}")
        module = ModuleType(f"kernelswarm_best_{self.session.replace('-', '_')}")
        exec(compile(self.source, f"<kernelswarm {self.session}>", "exec"), module.__dict__)
        if hasattr(module, "ModelNew"):
            model: Callable[..., Any] = module.ModelNew
            return model
        best: Callable[..., Any] = module.kernel
        if not self.parameters:
            return best
        parameters = self.parameters
        return lambda *inputs: best(*inputs, *parameters)


def optimize(
    operator: Callable[..., Any] | str | Path,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    pool: str = "cpu",
    budget: int = 40,
    minutes: float | None = None,
    target: float | None = None,
    seed: int = 0,
    synthesizer: str = "playbook",
    model: str = "",
    nats: str = "",
    home: Path | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Optimized:
    """Search for a faster kernel; blocks until the session is closed.

    Args:
        operator: a function, an ``nn.Module``, or the path of a problem file.
        inputs: its arguments, by position or by name; not with a path.
        pool: hardware pool.
        budget: candidates to spend.
        minutes: stop planning after so long.
        target: stop at this speedup over the best baseline.
        seed: of the planner's random choices.
        synthesizer: ``playbook`` or ``anthropic``.
        model: of a language-model synthesizer.
        nats: URL of a cluster; without it a server of this process's own is used.
        home: where log and caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: told what happens, in a few words; ``print`` will do.

    Raises:
        InputError: the operator, an input or an option cannot be used.
        BusError: the cluster cannot be reached.
    """
    traced = _problem(operator, inputs)
    options = SearchOptions(
        budget=budget, minutes=minutes, target=target, seed=seed, synthesizer=synthesizer, model=model
    )
    where = home or kernelswarm_home()

    async def search() -> SearchResult:
        async with searching(traced.problem, pool, options, home=where, nats=nats, on_notice=on_notice) as running:
            async for _ in running.events():
                pass
            return running.result()

    return Optimized(_run(search()), traced.parameters)


def _problem(operator: Callable[..., Any] | str | Path, inputs: Sequence[Any] | Mapping[str, Any] | None) -> Traced:
    if isinstance(operator, str | Path):
        if inputs is not None:
            raise InputError("a problem file draws its own inputs: leave `inputs` out")
        return Traced(load_problem(Path(operator)), ())
    if inputs is None:
        raise InputError("give `inputs`: the arguments with which the operator is to be fast, for example [x, weight]")
    if not isinstance(inputs, Sequence | Mapping):
        raise InputError(f"`inputs` is a {type(inputs).__name__}: put the arguments into a list, for example [x]")
    return trace(operator, inputs)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, also from within a running loop (a notebook), in a thread of its own then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="kernelswarm") as pool:
        return pool.submit(asyncio.run, work).result()


__all__ = ["Optimized", "optimize"]
