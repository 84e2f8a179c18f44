"""Languages that candidates are written in: one file each, named here."""

from ...schemas import PoolError
from . import cpp, cuda, triton
from .base import Language

LANGUAGES: dict[str, Language] = {cpp.NAME: cpp, triton.NAME: triton, cuda.NAME: cuda}
"""Every language by the name that pool files use."""


def find_language(name: str) -> Language:
    """The language called ``name``.

    Raises:
        PoolError: there is none; the message lists those there are.
    """
    try:
        return LANGUAGES[name]
    except KeyError:
        raise PoolError(f"no language is called {name!r}; there is {', '.join(sorted(LANGUAGES))}") from None


__all__ = ["LANGUAGES", "Language", "find_language"]
