"""Copies graph nodes with other names for the nodes that they read."""

from collections.abc import Mapping

from msgspec import structs

from ...schemas import Arg, Items, Node, Ref


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """``node`` with the new names of those that it refers to."""

    def visit(arg: Arg) -> Arg:
        if isinstance(arg, Ref):
            return Ref(name=names.get(arg.name, arg.name))
        return Items(items=tuple(visit(a) for a in arg.items)) if isinstance(arg, Items) else arg

    args = tuple(visit(a) for a in node.args)
    return structs.replace(node, args=args, kwargs={key: visit(a) for key, a in node.kwargs.items()})
