"""What the process that compiles CUDA C++ is asked, and what it answers."""

from ...schemas import KernelResources, Schema


class Request(Schema, frozen=True, kw_only=True):
    """What to compile."""

    source: str
    flags: tuple[str, ...]
    target: str
    """With its suffix: ``sm_90a``."""


class Result(Schema, frozen=True, kw_only=True):
    """What came of it."""

    ok: bool = False
    log: str = ""
    missing: str = ""
    """Why NVRTC could not be asked; empty if it was."""
    kernels: tuple[KernelResources, ...] = ()
    unmeasured: str = ""
    """Why the kernels' resources are unknown."""
    isolation: tuple[str, ...] = ()
