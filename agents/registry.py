"""Every role of the ring by name. Adding an agent means adding a file and naming it here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..bus import Bus
from ..hardware.device import Device
from ..schemas import InputError
from .analyst import Analyst
from .compiler import Compiler
from .distiller import Distiller
from .planner.agent import Planner
from .planner.machine import WIDTH
from .profiler import Profiler
from .runtime import Agent
from .synthesizer.agent import Synthesizer
from .verifier import Verifier


@dataclass(frozen=True)
class Role:
    """How to make an agent of a role."""

    make: Callable[[Device, Bus], Agent]
    needs_device: bool
    """Whether it runs candidates or a toolchain of the pool; the others run anywhere."""


ROLES: Mapping[str, Role] = {
    "planner": Role(lambda device, bus: Planner(), needs_device=False),
    "synthesizer": Role(lambda device, bus: Synthesizer(), needs_device=False),
    "compiler": Role(Compiler, needs_device=True),
    "verifier": Role(Verifier, needs_device=True),
    "profiler": Role(Profiler, needs_device=True),
    "analyst": Role(lambda device, bus: Analyst(), needs_device=False),
    "distiller": Role(lambda device, bus: Distiller(), needs_device=False),
}
"""Roles in the order of the ring."""

ALL_ROLES: Mapping[str, int] = {"compiler": 2, **{role: 1 for role in ROLES if role != "compiler"}}
"""What one process runs by default: one of each, and a second compiler to keep the ring fed."""


def widened(roles: Mapping[str, int], synthesizer: str) -> Mapping[str, int]:
    """``roles`` for a search with ``synthesizer``: a model takes minutes, so every planned node asks it at once."""
    if synthesizer != "anthropic" or not roles:
        return roles
    return {**roles, "synthesizer": max(WIDTH, roles.get("synthesizer", 0))}


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
