"""A problem: the PyTorch reference to beat, and what problem validation found out about it."""

from enum import StrEnum

from msgspec.structs import replace

from .base import Schema
from .graph import Graph


class ProblemFormat(StrEnum):
    """How a problem file is written."""

    function = "function"
    """``shapes``, ``inputs(generator, **shape)`` and ``reference(*inputs)``."""

    kernelbench = "kernelbench"
    """``Model(nn.Module)``, ``get_inputs()`` and ``get_init_inputs()``."""


class Problem(Schema, frozen=True, kw_only=True):
    """A problem file, whole: what is searched is this text, not a path that may change."""

    name: str
    """Short and readable, ``[a-z0-9_]+``; the file's stem."""

    format: ProblemFormat
    """Which contract the source follows."""

    source: str
    """The file's text."""

    sha256: str
    """Hash of the source: the identity under which baselines are kept."""


class InputFact(Schema, frozen=True, kw_only=True):
    """One input of the reference at one shape."""

    name: str
    """Parameter name in the reference's signature."""

    kind: str
    """``tensor``, ``int``, ``float``, ``bool`` or ``other``."""

    shape: tuple[int, ...] = ()
    """Sizes of a tensor."""

    dtype: str = ""
    """dtype of a tensor, as torch spells it."""

    literal: str = ""
    """An input that is no tensor as text: ``1e-06``, ``list(torch.float32, torch.float32)``; empty in older events."""

    role: str = ""
    """Of a module's tensor: ``parameter``, ``buffer`` or ``buffer_not_persistent``; empty for inputs and in older
    events."""


class StateFact(Schema, frozen=True, kw_only=True):
    """Something that one call of the reference changes and the next one finds."""

    name: str
    """Qualified name in the module (``norm.running_mean``, ``steps``), or the input's parameter name."""

    kind: str
    """``parameter``, ``buffer``, ``attribute`` (a tensor or number that is neither) or ``input`` (written in place)."""


class Work(Schema, frozen=True, kw_only=True):
    """What the operator must do at one shape, counted from the reference: the floor of any implementation."""

    read_bytes: int
    """Bytes of all inputs that must be read once."""

    write_bytes: int
    """Bytes of all outputs that must be written once."""

    flops: int
    """Arithmetic operations, a multiply-add as two, a transcendental as one."""

    needed_bytes: int = 0
    """Bytes that provably no implementation leaves out: of the outputs, and of the inputs whose numbers each change an
    answer. Never more than what is read and written."""

    dense_flops: int = 0
    """Operations of matrix products that no algebra leaves out, at a shape that no graph is kept of."""


class ShapeFacts(Schema, frozen=True, kw_only=True):
    """What one named shape of the problem asks for."""

    name: str
    """Key in the problem's ``shapes``; ``main`` for a KernelBench file."""

    inputs: tuple[InputFact, ...]
    """The reference's inputs."""

    outputs: tuple[InputFact, ...]
    """The reference's outputs (flattened)."""

    weight: float = 0.0
    """In the geometric mean of the speedups, where the problem names the shapes that are timed; 0: it is not timed.
    Where no shape has one, the first is timed alone."""

    work: Work | None = None
    """Counted at this shape, where it is timed and not the first."""

    error_bound: float | None = None
    """As :attr:`ProblemFacts.error_bound`, likewise."""


class InputKind(Schema, frozen=True, kw_only=True):
    """Whether candidates are checked on one kind of inputs beside the problem's own (docs/judge/inputs.md)."""

    name: str
    """``shifted``, ``heavy_tailed``, ``ill_conditioned``, ``tiny``, ``infinite``, ``nan``, ``strided``; ``held_out``,
    ``held_out_alike``, ``held_out_first`` for shapes that the problem does not name."""

    shape: str
    """Name of the checking shape; of the one that others are made from."""

    refused: str = ""
    """Why the reference means nothing on them; empty: they are used."""


COTANGENTS = "cotangents"
"""Last argument of a problem that asks for the backward pass, too."""


class ProblemFacts(Schema, frozen=True, kw_only=True):
    """What problem validation found: the search relies on it, and replay needs no torch because of it."""

    signature: tuple[str, ...]
    """Parameter names of the reference (or of ``Model.forward``), in order; of a problem that asks for the backward
    pass :data:`COTANGENTS` after them."""

    shapes: tuple[ShapeFacts, ...]
    """Every checking shape, those that are timed first; the graph and the work are of the first."""

    graph: Graph | None
    """The captured ATen graph; None where the reference cannot be captured (``capture_error`` says why)."""

    work: Work
    """Counted at the main shape."""

    dtype: str
    """Precision to match: the dtype of the first floating output, else of the first output."""

    float64_oracle: bool
    """Whether the reference also runs in float64. If not, it is its own oracle at its own precision."""

    capture_error: str = ""
    """Why there is no graph."""

    parameters: dict[str, InputFact] = {}
    """Weights and buffers of a KernelBench ``Model``, by qualified name."""

    is_module: bool = False
    """Whether it is a KernelBench ``Model``, with or without parameters: candidates are a ``ModelNew`` then."""

    state: tuple[StateFact, ...] = ()
    """What a call of the reference changes: candidates must leave the same."""

    backward_graph: Graph | None = None
    """For a problem that asks for the backward pass: inputs and cotangents to the gradients of the floating inputs;
    :attr:`graph` is the forward pass then."""

    graphs_elsewhere: tuple[Graph, ...] = ()
    """The reference at named shapes at which it is another operator than :attr:`graph`: it branches or loops by sizes.
    """

    operators: tuple[str, ...] = ()
    """ATen operators of the graph, sorted and unique: what similarity between problems looks at."""

    error_bound: float | None = None
    """Relative error allowed at the main shape on validation inputs, the least of all floating outputs; None where the
    problem asks for an absolute one only."""

    error_bounds: dict[str, float] = {}
    """The same by floating result: ``output_0``, … and by name what a call writes. Empty in older events, and where
    :attr:`error_bound` is None."""

    tf32_convolutions: bool = False
    """Whether the judge counts the error of convolutions in TF32 as the reference's own. False in older events: there
    its convolutions ran in TF32 where :attr:`error_bounds` are wide."""

    input_kinds: tuple[InputKind, ...] = ()
    """Inputs beside the problem's own that candidates are checked on, and those that problem validation left out."""

    weight_exponents: dict[str, int] = {}
    """Powers of two by which the judge multiplies the module's parameters, by name; all others are as the file makes
    them. Not empty where the answer hardly depends on the inputs otherwise, and a constant would pass for it."""

    distance: float | None = None
    """How far off the wrong answer is that is nearest to the right one, on the inputs that show it best: at least so
    many error bounds. None in older events, and where no wrong answer has the form of the answer."""

    peak_bytes: int = 0
    """Most bytes of an accelerator that a call of the reference took, weights, inputs and outputs included; 0 in older
    events, and on a processor."""

    @property
    def has_backward(self) -> bool:
        """Whether the problem asks for the backward pass, too: then the judge's calls have cotangents, last."""
        return self.signature[-1:] == (COTANGENTS,)

    @property
    def has_held_out_shapes(self) -> bool:
        """Whether candidates are checked at shapes that the problem does not name."""
        return any(kind.name.startswith("held_out") and not kind.refused for kind in self.input_kinds)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Parameters of the reference, and so of ``kernel``: :attr:`signature` without the judge's cotangents."""
        return self.signature[:-1] if self.has_backward else self.signature

    @property
    def output_bound(self) -> float:
        """The least bound of the outputs, what a call writes aside; 0 where nothing is known."""
        bounds = [bound for name, bound in self.error_bounds.items() if name.startswith("output_")]
        return min(bounds, default=self.error_bound or 0.0)

    @property
    def timed(self) -> tuple[ShapeFacts, ...]:
        """The shapes at which candidates are timed, at least one."""
        return tuple(shape for shape in self.shapes if shape.weight > 0) or self.shapes[:1]

    def at(self, shape: ShapeFacts) -> "ProblemFacts":
        """The same with the timed ``shape`` as the first: what a floor, a roofline and a timing there go by."""
        if shape == self.shapes[0] or shape.work is None:
            return self
        others = tuple(other for other in self.shapes if other != shape)
        return replace(
            self,
            shapes=(shape, *others),
            graph=None,
            graphs_elsewhere=(),
            backward_graph=None,
            work=shape.work,
            error_bound=shape.error_bound,
            error_bounds={},
        )
