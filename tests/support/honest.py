"""The corpus of honest kernels: ``tests/adversarial/honest/PROBLEM/KERNEL.py``; the folder says which problem is meant.

A problem is the folder's own ``problem.py``, else one of the adversarial suite's, else one that ships.
"""

from dataclasses import dataclass
from pathlib import Path

ADVERSARIAL = Path(__file__).resolve().parent.parent / "adversarial"
CORPUS = ADVERSARIAL / "honest"
SHIPPED = ADVERSARIAL.parent.parent / "problems"
PROBLEM_FILE = "problem.py"


@dataclass(frozen=True)
class HonestKernel:
    """A right kernel that the judge must call correct each time."""

    path: Path
    problem: Path

    @property
    def name(self) -> str:
        """``softmax/online``: folder and file."""
        return f"{self.path.parent.name}/{self.path.stem}"


def problem_of(folder: Path) -> Path:
    """The problem file of the kernels in ``folder``.

    Raises:
        FileNotFoundError: there is none; the message names the places.
    """
    name = f"{folder.name}.py"
    places = (folder / PROBLEM_FILE, ADVERSARIAL / "problems" / name, SHIPPED / name)
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(f"{folder} has no problem: add one of {', '.join(map(str, places))}")


def honest_kernels() -> list[HonestKernel]:
    """All of them, by name."""
    paths = sorted(path for path in CORPUS.glob("*/*.py") if path.name != PROBLEM_FILE)
    return [HonestKernel(path, problem_of(path.parent)) for path in paths]
