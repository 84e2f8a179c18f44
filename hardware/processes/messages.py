"""What the fork server, reapers and children of any kind say. Children's words are data, never trusted code."""

from ...schemas import Schema

# The fork server ------------------------------------------------------------------------------------------------------

HOST = "cpu"
"""Main memory, as torch names it."""


class Spawn(Schema, frozen=True, kw_only=True):
    """Asks the fork server for a child. Beside it travel: channel, reaper's socket, output."""

    role: str
    """``candidate``, ``reference``, ``baseline`` or ``admission``."""

    scratch: str
    """Working folder of the child."""

    memory_bytes: int
    """How much address space it may take, and about as much in files."""

    threads: int
    """Threads of torch's and OpenMP's pool."""

    confine: bool
    """Whether it is untrusted: read-only files, no processes of its own."""

    device: str = HOST
    """Where its tensors live, as torch names it: ``cpu`` or ``cuda:0``."""

    programs: bool = False
    """Whether untrusted code may start programs: what was not compiled ahead has to be compiled in its process."""

    stacks_bytes: int = 0
    """Address space beside that which threads reserve and do not fill."""

    environment: dict[str, str] = {}
    """Added to what the fork server sees of the environment."""


class Hello(Schema, frozen=True, kw_only=True):
    """A child is up."""

    isolation: tuple[str, ...]
    """Every layer in force for it."""


class Ended(Schema, frozen=True, kw_only=True):
    """How a child ended, as its reaper saw it."""

    exit_code: int
    """Exit status; -1 if a signal killed it."""

    signal: int
    """The signal, or 0."""


# Answers of any child ----------------------------------------------------------------------------------------------


class Failure(Schema, frozen=True, kw_only=True, tag="failure"):
    """A command did not work."""

    kind: str
    """``load``, ``raised``, ``memory``, ``problem`` (the sentence is for the user) or ``cuda``."""

    message: str
    """One sentence."""

    log: str = ""
    """Traceback."""

    needed_bytes: int = 0
    """Of ``memory``: about so much its tensors take; 0: not known."""


class Done(Schema, frozen=True, kw_only=True, tag="done"):
    """A command worked and has nothing to tell."""
