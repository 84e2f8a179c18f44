"""Constructors of graph nodes for rewrites: operators with one result, views, and their metadata."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from ...schemas import Arg, Expr, Items, Node, Ref, TensorMeta


def call(name: str, target: str, args: tuple[Arg, ...], meta: TensorMeta, **kwargs: Arg) -> Node:
    """An operator with one result."""
    return Node(name=name, op="call", target=target, args=args, kwargs=kwargs, values=(meta,))


def viewed(name: str, source: str, meta: TensorMeta) -> Node:
    """``source`` with the shape of ``meta``."""
    return call(name, "aten.view.default", (Ref(name=source), dims_argument(meta.shape)), meta)


def permuted(name: str, source: str, order: Sequence[int], meta: TensorMeta) -> Node:
    """``source`` with its dimensions in that order, which makes it ``meta``."""
    return call(name, "aten.permute.default", (Ref(name=source), Items(items=tuple(order))), meta)


def in_order(meta: TensorMeta, order: Sequence[int]) -> TensorMeta:
    """What is known of a value whose dimensions are put in that order."""
    return TensorMeta(
        shape=tuple(meta.shape[dim] for dim in order),
        dtype=meta.dtype,
        example=tuple(meta.example[dim] for dim in order) if meta.example else (),
    )


def with_ones(meta: TensorMeta, dims: Iterable[int]) -> TensorMeta:
    """What is known of a value of which ``dims`` have one element."""
    ones = set(dims)
    shape = tuple(1 if dim in ones else size for dim, size in enumerate(meta.shape))
    example = tuple(1 if dim in ones else size for dim, size in enumerate(meta.example))
    return TensorMeta(shape=shape, dtype=meta.dtype, example=example)


def with_dtype(meta: TensorMeta, dtype: str) -> TensorMeta:
    """What is known of a value of the same shape, contiguous, in another type."""
    return structs.replace(meta, dtype=dtype, strides=())


def dim_argument(dim: int | str) -> Arg:
    """A size of a shape as an argument."""
    return Expr(value=dim) if isinstance(dim, str) else dim


def dims_argument(shape: Iterable[int | str]) -> Items:
    """A shape as an argument."""
    return Items(items=tuple(map(dim_argument, shape)))
