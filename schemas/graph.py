"""A PyTorch operator as data: the captured ATen graph, with symbolic shapes, free of torch."""

from .base import Schema

Dim = int | str
"""A size: a number, or a Python expression over the graph's symbols (``"s0"``, ``"(s1 + 1)//2"``)."""


class Ref(Schema, frozen=True, kw_only=True, tag="ref"):
    """An argument that is another node's value."""

    name: str
    """Name of the node."""


class Expr(Schema, frozen=True, kw_only=True, tag="expr"):
    """An argument that is a symbolic integer."""

    value: str
    """Python expression over the graph's symbols; an integer, or a float if it uses ``/`` or ``math.``."""


class DType(Schema, frozen=True, kw_only=True, tag="dtype"):
    """An argument that is a dtype."""

    name: str
    """As torch spells it, without the module: ``float32``, ``int64``, ``bool``."""


class MemoryFormat(Schema, frozen=True, kw_only=True, tag="memory_format"):
    """An argument that is a memory format. Older graphs have None for it."""

    name: str
    """As torch spells it, without the module: ``contiguous_format``, ``preserve_format``."""


class SpecialFloat(Schema, frozen=True, kw_only=True, tag="float"):
    """A float that JSON cannot write."""

    value: str
    """``inf``, ``-inf`` or ``nan``."""


class ComplexNumber(Schema, frozen=True, kw_only=True, tag="complex"):
    """An argument that is a complex number. Older graphs have None for it."""

    value: str
    """As Python's ``complex`` reads it: ``1+2j``."""


class Items(Schema, frozen=True, kw_only=True, tag="list"):
    """An argument that is a list of arguments."""

    items: "tuple[Arg, ...]" = ()
    """In order."""


Arg = None | bool | int | float | str | Ref | Expr | DType | MemoryFormat | SpecialFloat | ComplexNumber | Items
"""An argument of a node, as JSON can hold it."""


class TensorMeta(Schema, frozen=True, kw_only=True):
    """What is known of a tensor without running."""

    shape: tuple[Dim, ...]
    """Symbolic sizes, outermost first."""

    dtype: str
    """As torch spells it: ``float32``, ``int64``, ``bool``."""

    example: tuple[int, ...] = ()
    """Sizes at the main shape; empty where they depend on the data."""

    strides: tuple[Dim, ...] = ()
    """Symbolic strides in elements."""


class Node(Schema, frozen=True, kw_only=True):
    """One step of the graph."""

    name: str
    """Unique in the graph."""

    op: str
    """``input`` (argument), ``param`` (weight or buffer), ``constant`` (a small tensor the reference made for itself),
    ``call``, ``size`` (symbolic integer), ``output``."""

    target: str = ""
    """What is called: ``aten.mul.Tensor``, ``operator.getitem``; for ``param`` its qualified name; for ``output`` how
    the results are put together, as Python over ``r0``, ``r1``, …; empty: one value, or a tuple of all; for ``input``
    empty, ``nested`` (it holds tensors), ``object``, or where a tensor lies in a nested one: ``hx[0]``."""

    args: tuple[Arg, ...] = ()
    """Positional arguments; of ``output`` the results, flattened: what is written is returned as written. Of an
    ``input`` that is ``nested``: how many items its containers have, as Python conditions; older graphs do not say."""

    kwargs: dict[str, Arg] = {}
    """Keyword arguments. Of ``output`` what the operator leaves behind, by the name of the ``input`` or ``param`` node
    that it writes: the new value, computed from what all of them held before."""

    values: tuple[TensorMeta, ...] = ()
    """Result: one tensor, or several for an operator that returns a tuple; empty for a ``size``."""

    expr: str | None = None
    """The value of a ``size`` node, or of a call that returns a number, as an expression over the symbols."""

    literal: Arg = None
    """Of a ``constant``: its elements, flat, in C order. Of an ``input`` that is no tensor: the number that capture
    saw; if it is not symbolic, the graph is valid for this value only. Of a ``param``: the other names of the same
    tensor, where it has several."""


class SymbolSource(Schema, frozen=True, kw_only=True):
    """Where a symbol's value is read from at run time."""

    input: str
    """Name of the ``input`` node."""

    dim: int
    """Dimension whose size it is; -1 if the input is itself an integer."""

    example: int
    """Its value at the main shape."""

    expr: str = ""
    """What it is of the other symbols, as Python, where it is no input's size and no polynomial of sizes:
    ``math.trunc(1.5*float(s0))``. ``input`` is empty then."""


class Graph(Schema, frozen=True, kw_only=True):
    """A captured operator in the order of execution."""

    nodes: tuple[Node, ...]
    """Inputs first, one ``output`` last."""

    symbols: dict[str, SymbolSource] = {}
    """Every symbol that occurs in a shape and can be read from an input. Others depend on the data."""

    guards: tuple[str, ...] = ()
    """Boolean Python expressions over the symbols under which the graph is valid."""

    decided: tuple[str, ...] = ()
    """What the reference's own code asked of its inputs' sizes (``x.shape[1] > 450``: a branch, a loop, a size taken as
    a number). Where one does not hold the operator is another one, and nothing in the graph says what it does."""
