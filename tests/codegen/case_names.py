"""Names of the operators that files of this folder register, found without importing torch."""

import itertools
from pathlib import Path

HERE = Path(__file__).parent


def names_of(path: Path) -> list[str]:
    """Functions and classes below a ``@case``, in the file's order."""
    return [
        line.split("(")[0].split()[1]
        for before, line in itertools.pairwise(path.read_text().splitlines())
        if line.startswith(("def ", "class ")) and before.startswith((")", "@case"))
    ]


OPERATORS = [name for path in sorted(HERE.glob("operators*.py")) for name in names_of(path)]
"""Those that both languages are tried on."""
