"""One input set that candidates are checked on, as the supervisor holds it."""

from dataclasses import dataclass, field

from ..messages.commands import CaseMade, Expected, Output, Values
from ..messages.state import StateEntry
from .sizes import bytes_of, is_large
from .variants import NORMAL


@dataclass(frozen=True)
class Case:
    """One input set, ready to be handed to a candidate."""

    number: int
    shape: str
    """The name that the problem gives it, or the sizes that were made up."""
    seed: int
    inputs: Values
    file: int
    """Descriptor of the inputs' memory file."""
    outputs: tuple[Expected, ...]
    kind: str = NORMAL
    refused: str = ""
    """Why nobody can be checked on it; then it has neither inputs nor file."""
    passing: tuple[str, ...] = ()
    """Wrong answers that would pass on it."""
    state: tuple[StateEntry, ...] = ()
    """What the reference changes there; the last of ``outputs`` are what it leaves of that."""
    earlier: tuple[int, ...] = ()
    """Seeds of the calls before it, whose state it finds; empty: it begins from the start."""
    aliased: bool = False
    """As :attr:`.CaseMade.aliased`."""
    passes_on: bool = False
    """As :attr:`.CaseMade.passes_on`."""
    followed: tuple[str, ...] = ()
    """Of a case of gradients: the parameters that they are taken of, beside the inputs."""
    labels: tuple[str, ...] = ()
    """Where there are gradients among the outputs: what each one is."""

    @property
    def returned_bytes(self) -> int:
        """Bytes of the tensors that a call returns or leaves."""
        return sum(bytes_of(output.shape, output.dtype) for output in self.outputs if output.dtype)

    @property
    def is_large(self) -> bool:
        """Whether a call on it takes and returns so much that it is made once only."""
        return is_large(self.inputs.size, self.returned_bytes)

    @property
    def form(self) -> tuple[Output, ...]:
        """Outputs as the reference has them, and the state that it leaves."""
        return tuple(
            Output(kind=output.kind, type_name="", dtype=output.dtype, shape=output.shape) for output in self.outputs
        )

    @property
    def when(self) -> str:
        """Which call it is, in words."""
        return f" after call {len(self.earlier) + 1} in a row" if self.earlier else " after a call from the start"

    @property
    def returned(self) -> int:
        """How many of ``outputs`` a call returns."""
        return len(self.outputs) - len(self.state)


@dataclass(frozen=True)
class Planned:
    """How to make one."""

    shape: str
    seed: int
    kind: str = NORMAL
    sizes: dict[str, int] = field(default_factory=dict)
    """Made-up ones, instead of those of the shape."""
    earlier: tuple[int, ...] = ()
    """Seeds of the calls before it."""

    def made(self, number: int, shape: str, answer: CaseMade, file: int) -> Case:
        """The case ``number``, as the reference made it at ``shape``, with its inputs in ``file``."""
        return Case(
            number=number,
            shape=shape,
            seed=self.seed,
            inputs=answer.inputs,
            file=file,
            outputs=answer.outputs,
            kind=self.kind,
            refused=answer.refused,
            passing=answer.passing,
            state=answer.state,
            earlier=self.earlier,
            aliased=answer.aliased,
            passes_on=answer.passes_on,
            followed=answer.followed,
            labels=answer.labels,
        )
