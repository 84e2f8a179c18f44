"""Chooses the cheapest order of chains of matrix products: ``A (B C)`` is ``(A B) C``."""

import math
from collections.abc import Mapping

from msgspec import structs

from ...hardware.machine.work import refs, uses
from ...schemas import Node, Ref, TensorMeta
from .pointwise import base_name
from .views import RESHAPES

_GAIN = 1.5
"""How many times less another order must cost."""
_MOVED = 64
"""Multiplications that take as long as an element of the product in between, which is written and read again."""
_KEEPING = RESHAPES | {"expand", "clone"}
"""Operators between two products that keep the order of the elements, where they keep their number."""


def reassociated(nodes: list[Node]) -> list[Node]:
    """The same nodes, with every chain of three matrices in its better order."""
    changed = True
    while changed:
        changed = False
        by_name, used = {node.name: node for node in nodes}, uses(n for n in nodes if n.op != "size")
        for node in nodes:
            is_product = base_name(node.target) in ("mm", "bmm")
            replacement = _other_order(node, nodes, by_name, used) if is_product else None
            if replacement:
                nodes, changed = replacement, True
                break
    return nodes


def _other_order(node: Node, nodes: list[Node], by_name: dict[str, Node], used: Mapping[str, int]) -> list[Node] | None:
    """``nodes`` with the product of three matrices that ends in ``node`` in the other order, if that is better."""
    operands = [by_name[name] for name in refs(node.args)]
    if len(operands) != 2 or not all(isinstance(arg, Ref) for arg in node.args):
        return None
    for place, operand in enumerate(operands):
        path = _inner_product(operand, node, by_name)
        if path is None or any(used[other.name] != 1 for other in path):
            continue
        first, second = (by_name[name] for name in refs(path[-1].args))
        a, b, c = (first, second, operands[1]) if place == 0 else (operands[0], first, second)
        pair = (b, c) if place == 0 else (a, b)
        shapes = (a.values[0].example, b.values[0].example, c.values[0].example)
        if _cost(*shapes, left=place == 1) * _GAIN > _cost(*shapes, left=place == 0):
            continue
        (x, y), inner = pair, path[-1]
        meta = TensorMeta(
            shape=(*x.values[0].shape[:-1], y.values[0].shape[-1]),
            dtype=inner.values[0].dtype,
            example=(*x.values[0].example[:-1], y.values[0].example[-1]),
        )
        made = structs.replace(inner, args=(Ref(name=x.name), Ref(name=y.name)), values=(meta,))
        args = (Ref(name=a.name), Ref(name=inner.name)) if place == 0 else (Ref(name=inner.name), Ref(name=c.name))
        # Sizes are expressions over the inputs' wherever they are used.
        gone = {other.name for other in path}
        rest = (o for o in nodes if o.name not in gone and not (o.op == "size" and gone & set(refs(o.args))))
        ends = (made, structs.replace(node, args=args))
        return [new for other in rest for new in (ends if other is node else (other,))]
    return None


def _inner_product(node: Node, outer: Node, nodes: dict[str, Node]) -> list[Node] | None:
    """From ``node`` down to a product whose elements it shows in their order; None if there is none."""
    path, meta = [node], node.values[0]
    while node.op == "call" and base_name(node.target) in _KEEPING:
        node = nodes[next(refs(node.args))]
        path.append(node)
    values = node.values[:1]
    fits = node.target == outer.target and len(values) == 1 and not node.kwargs and not outer.kwargs
    if not fits or (values[0].shape, values[0].dtype) != (meta.shape, meta.dtype) or not values[0].example:
        return None
    sizes = {math.prod(other.values[0].example) for other in path}
    return path if len(sizes) == 1 and all(other.values[0].dtype == meta.dtype for other in path) else None


def _cost(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], left: bool) -> int:
    """Of ``(A B) C``, or of ``A (B C)``, in multiplications."""
    batch, (m, k), n, p = math.prod(a[:-2]), a[-2:], b[-1], c[-1]
    between = m * n if left else k * p
    return batch * (m * k * n + m * n * p if left else k * n * p + m * k * p) + batch * _MOVED * between
