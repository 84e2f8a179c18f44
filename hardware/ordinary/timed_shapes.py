"""Ordinary processes at every timed shape of one problem."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ...schemas import Problem, ProblemFacts, ShapeTiming, Timing
from ..harness.timing.effort import USUAL, Effort
from ..harness.timing.several_shapes import timing_of
from ..machine.lease import Lease
from .host import OrdinaryHost
from .process import Missing
from .settings import Settings


class OrdinaryHosts:
    """Times finished files of one problem in ordinary processes, at each of its timed shapes."""

    def __init__(self, settings: Settings, problem: Problem, facts: ProblemFacts) -> None:
        """Starts nothing yet."""
        self.settings = settings
        """What all processes have in common."""
        self.problem = problem
        """Whose baselines these are."""
        self.notify: Callable[[str], None] | None = None
        """Is told in a few words what is being done, where somebody waits for that alone."""
        self._timed = facts.timed
        self._hosts = [OrdinaryHost(settings, problem, facts.at(shape)) for shape in facts.timed]

    @property
    def missing(self) -> dict[str, str]:
        """Baselines that cannot be timed at some shape, and why."""
        return {name: reason for host in self._hosts for name, reason in host.missing.items()}

    @property
    def isolation(self) -> str:
        """Layers around the candidate's last process."""
        return next((host.isolation for host in reversed(self._hosts) if host.isolation), "")

    async def close(self) -> None:
        """End all processes."""
        for host in self._hosts:
            await host.close()

    async def get_ready(self, lease: Lease, absent: Collection[str]) -> None:
        """As :meth:`.OrdinaryHost.get_ready`, at one shape after the other."""
        for host in self._hosts:
            await host.get_ready(lease, absent)

    async def time(
        self,
        text: str,
        lease: Lease,
        effort: Effort = USUAL,
        artifacts: Sequence[Path] = (),
        absent: Collection[str] = (),
    ) -> Timing:
        """Time the finished file ``text`` as :meth:`.OrdinaryHost.time` does, one shape after the other.

        Raises:
            Missing: that cannot be done at some shape; the message says why.
        """
        shapes: list[ShapeTiming] = []
        for shape, host in zip(self._timed, self._hosts, strict=True):
            at = f" at shape {shape.name}" if len(self._hosts) > 1 else ""
            try:
                if self.notify is not None:
                    self.notify(f"starting the baselines{at}: torch.compile and max-autotune compile")
                    await host.get_ready(lease, absent)
                    self.notify(f"timing it in turns with the baselines{at}, each in fresh processes")
                share = effort.for_next(len(self._hosts) - len(shapes))
                timing = await host.time(text, lease, share, artifacts, absent)
            except Missing as missing:
                raise Missing(f"{at.strip()}: {missing}" if at else str(missing)) from None
            shapes.append(ShapeTiming(shape=shape.name, weight=shape.weight or 1.0, timing=timing))
        return timing_of(shapes)
