"""The operators that ship with kernelswarm, one problem file each.

A file here is read as text and run in a process of the harness; nothing imports it. So it can be handed over by path
from a checkout (``problems/mapid.py``) and from an installed wheel (``shipped()``) alike. Two formats are accepted, the
function file and the KernelBench file (the names of the latter end in ``_kb``).
"""

from pathlib import Path

__all__ = ["shipped"]


def shipped() -> list[Path]:
    """Return the paths of all problem files that ship with the package, sorted by name."""
    folder = Path(__file__).resolve().parent
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
