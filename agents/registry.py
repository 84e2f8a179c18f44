"""Every role of the ring by name. Adding an agent means adding a file and naming it here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..bus import Bus
from ..hardware.device import Device
from ..schemas import HardwareFacts, InputError, RoleModel
from .analyst import Analyst
from .checker import Checker
from .compiler import Compiler
from .dispatcher import Dispatcher
from .distiller import Distiller
from .model_adviser import ModelAdviser
from .planner.agent import Planner
from .planner.machine import WIDTH
from .profiler import Profiler
from .runtime import Agent
from .synthesizer.agent import Synthesizer
from .synthesizer.authors import asks_a_model, author_count
from .verifier import Verifier


@dataclass(frozen=True)
class Role:
    """How to make an agent of a role."""

    make: Callable[[Device, Bus], Agent]
    needs_device: bool
    """Whether it runs candidates or a toolchain of the pool; the others run anywhere."""


ROLES: Mapping[str, Role] = {
    "planner": Role(lambda device, bus: Planner(ModelAdviser(bus, device.home)), needs_device=False),
    "synthesizer": Role(lambda device, bus: Synthesizer(bus, device.home), needs_device=False),
    "compiler": Role(Compiler, needs_device=True),
    "verifier": Role(Verifier, needs_device=True),
    "profiler": Role(Profiler, needs_device=True),
    "dispatcher": Role(lambda device, bus: Dispatcher(bus), needs_device=False),
    "checker": Role(Checker, needs_device=True),
    "analyst": Role(lambda device, bus: Analyst(ModelAdviser(bus, device.home)), needs_device=False),
    "distiller": Role(lambda device, bus: Distiller(ModelAdviser(bus, device.home)), needs_device=False),
}
"""Roles in the order of the ring."""

AS_FITS = 0
"""Stands for a number of workers that follows from the machine."""

ALL_ROLES: Mapping[str, int] = {role: AS_FITS if definition.needs_device else 1 for role, definition in ROLES.items()}
"""What one process runs by default: one of each, and of those at the device as many as keep it from waiting."""

FREE_CORES = 4
"""Cores beside an accelerator that are left to those who judge: the references, two candidates, this process."""
MOST_COMPILERS = 32
CORES_FOR_FOUR = 12
"""Cores for each accelerator from which on four time candidates there."""


def worker_counts(roles: Mapping[str, int], hardware: HardwareFacts, devices: int = 1) -> dict[str, int]:
    """``roles`` with numbers for this machine in place of :data:`AS_FITS`.

    On a processor two compilers: they share its cores with timing. Beside an accelerator a compiler takes seconds and
    timing one, on cores that timing does not need: all but a few compile. For each of ``devices`` accelerators two
    verify, so that the next is ready, and two time: one loads its candidate while the other has the device. Where there
    are cores for it four time: two load, beside those that verify, while two are timed one after the other.
    """
    if hardware.accelerators:
        compilers = max(2, min(MOST_COMPILERS, hardware.cores - FREE_CORES))
        profilers = 4 if hardware.cores >= CORES_FOR_FOUR * devices else 2
        fits = {"compiler": compilers, "verifier": 2 * devices, "profiler": profilers * devices}
    else:
        fits = {"compiler": 2}
    return {role: count if count != AS_FITS else fits.get(role, 1) for role, count in roles.items()}


def widened(roles: Mapping[str, int], synthesizer: str, asking: Sequence[RoleModel] = ()) -> Mapping[str, int]:
    """``roles`` for a search with ``synthesizer``, of which those in ``asking`` ask models.

    A model takes minutes, so every planned node asks it at once; an analyst's takes seconds for each of them.
    """
    out = dict(roles)
    if asks_a_model(synthesizer) and roles:
        out["synthesizer"] = max(WIDTH * author_count(synthesizer), roles.get("synthesizer", 0))
    if "analyst" in roles and any(role.role == "analyst" for role in asking):
        out["analyst"] = max(WIDTH, roles["analyst"])
    return out


def parse_roles(text: str) -> dict[str, int]:
    """``compiler=2,verifier`` to counts.

    Raises:
        InputError: an unknown role, or a count that is not a number from 1 to 64.
    """
    out: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, count = part.partition("=")
        if name not in ROLES:
            raise InputError(f"unknown role {name!r}: choose from {', '.join(ROLES)}")
        if not (count or "1").isdecimal() or not 1 <= int(count or "1") <= 64:
            raise InputError(f"role {name}: {count!r} is not a number of workers from 1 to 64")
        out[name] = int(count or "1")
    if not out:
        raise InputError(f"no roles given: write for example compiler=2,verifier=1; roles are {', '.join(ROLES)}")
    return out
