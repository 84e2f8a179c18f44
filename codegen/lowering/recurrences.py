"""Finds recurrences in a graph that was captured step by step: one step, and how often it is taken.

A loop over time in Python is a graph of every step, and its results are put together by a concatenation. Where all
steps are the same operators on the next elements, and on what the step before computed, one node stands for them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from msgspec import structs

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Expr, Items, Node, Ref
from ..ir.build import SUPPORTED
from .pointwise import base_name, is_pointwise
from .renaming import renamed
from .step_sums import is_sum, may_sum, selected, spelled
from .views import VIEWS, resized, shape_of, size_argument, squeezed

RECURRENCE = "ks.recurrence"
"""Its arguments are a :class:`Recurrence`."""
CARRIED = "ks.carried"
"""A state of a recurrence before a step, while its kernel is made."""
STEPS = "ks.steps"
"""A recurrence whose steps sum over dimensions; its arguments are a :class:`Recurrence` too."""
LAST = "ks.last_state"
"""What the last step of :data:`STEPS` leaves: the node, and the number of the state."""

_FEWEST = 8
"""Steps from which on a loop is better than all of them in one expression."""
_MOST_NODES = 64
"""Operators of a step: expressions are walked by recursion."""


@dataclass(frozen=True)
class Recurrence:
    """A concatenation whose parts are steps of one recurrence; the second step stands for all but perhaps the first."""

    dim: int
    """Of the concatenation."""
    count: int
    """Steps."""
    direction: int
    """1, or -1: the first step gives the last part."""
    begin: int
    """The first step that is like the second: 0 or 1."""
    parts: tuple[str, str]
    """What the first step gives, and the second."""
    own: tuple[str, ...]
    """What the second step computes."""
    states: tuple[str, ...]
    """What it reads of the step before."""
    after: tuple[str, ...]
    """What of the second step the third reads in their place."""
    start: tuple[str, ...]
    """What the step ``begin`` reads there."""
    moving: tuple[tuple[str, int, int, int], ...]
    """Views whose place moves: the view, which of its arguments, the second step's, and how far it moves in a step."""

    def args(self) -> tuple[Arg, ...]:
        """As arguments of a node."""
        lists = (self.own, self.states, self.after, self.start)
        listed = [Items(items=tuple(Ref(name=name) for name in names)) for names in lists]
        moving = Items(items=tuple(Items(items=(Ref(name=view), *rest)) for view, *rest in self.moving))
        first, second = (Ref(name=name) for name in self.parts)
        return (self.dim, self.count, self.direction, self.begin, first, second, *listed, moving)

    def step(self, nodes: Mapping[str, Node], variable: str) -> tuple[dict[str, Node], dict[str, str]]:
        """Nodes of the step ``variable`` with names of their own, and these names by the second step's."""
        names = {name: f"{name}@step" for name in (*self.own, *self.states)}
        made = {}
        for name in self.own:
            node = renamed(structs.replace(nodes[name], name=names[name]), names)
            args = list(node.args)
            for view, place, value, stride in self.moving:
                if view == name:
                    args[place] = Expr(value=f"{value - stride} + {stride} * {variable}")
            made[node.name] = structs.replace(node, args=tuple(args))
        for name in self.states:
            made[names[name]] = Node(name=names[name], op="call", target=CARRIED, values=nodes[name].values)
        return made, names


def recurrence_of(node: Node) -> Recurrence:
    """What :data:`RECURRENCE` says."""
    dim, count, direction, begin, first, second, own, states, after, start, moving = node.args
    views = [(next(refs(item.items)), *item.items[1:]) for item in moving.items]  # type: ignore[union-attr]
    return Recurrence(
        dim=dim,  # type: ignore[arg-type]
        count=count,  # type: ignore[arg-type]
        direction=direction,  # type: ignore[arg-type]
        begin=begin,  # type: ignore[arg-type]
        parts=tuple(refs((first, second))),  # type: ignore[arg-type]
        own=tuple(refs((own,))),
        states=tuple(refs((states,))),
        after=tuple(refs((after,))),
        start=tuple(refs((start,))),
        moving=tuple(views),
    )


@dataclass
class _Steps:
    """What is known of a recurrence so far."""

    nodes: dict[str, Node]
    parts: Sequence[str]
    """In the order of the steps."""
    own: list[set[str]]
    """What each step computes that none before it did."""
    states: dict[str, str] = field(default_factory=dict)
    """By what the second step reads of the first: what the third reads of the second."""
    moving: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """By view of the second step and place of an argument: its value, and how far it moves in a step."""
    last: dict[str, int] = field(default_factory=dict)
    """What the last step leaves: the number of its state."""


class _Other(Exception):
    """A step differs."""


def looped(nodes: list[Node], sums: bool = False) -> list[Node]:
    """The same nodes with a node for every recurrence in the place of its concatenation, or of some of its parts.

    With ``sums`` steps may also sum over dimensions, as products of a row do.
    """
    for cat in [node for node in nodes if node.target == "aten.cat.default"]:
        by_name = {node.name: node for node in nodes}
        forms = {name: str(by_name[name].values) for name in refs(by_name[cat.name].args[:1])}
        runs = [list(run) for _, run in groupby(refs(by_name[cat.name].args[:1]), forms.__getitem__)]
        for place, run in enumerate(runs):
            if len(run) >= _FEWEST and len(set(run)) == len(run):
                cut = _cut(nodes, by_name[cat.name], runs, place) if len(runs) > 1 else (nodes, cat.name)
                nodes = _looped(nodes, *cut, sums)
                break
    return nodes


def _cut(nodes: list[Node], cat: Node, runs: list[list[str]], place: int) -> tuple[list[Node], str]:
    """A concatenation of its own for a run of parts that are alike."""
    by_name = {node.name: node for node in nodes}
    dim, metas = _dim(cat), [by_name[name].values[0] for name in runs[place]]
    length = shape_of(by_name[runs[place][0]])[dim] * len(metas)
    meta = resized(metas[0], dim, length, sum(meta.example[dim] for meta in metas if meta.example))
    name = f"{cat.name}_run"
    run = Items(items=tuple(Ref(name=part) for part in runs[place]))
    inner = Node(name=name, op="call", target=cat.target, args=(run, dim), values=(meta,))
    parts = [part for number, names in enumerate(runs) for part in ([name] if number == place else names)]
    outer = structs.replace(cat, args=(Items(items=tuple(Ref(name=part) for part in parts)), dim), kwargs={})
    return [new for node in nodes for new in ((inner, outer) if node.name == cat.name else (node,))], name


def _dim(cat: Node) -> int:
    dim = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
    assert isinstance(dim, int)
    return dim % len(cat.values[0].shape)


def _looped(given: list[Node], nodes: list[Node], name: str, sums: bool) -> list[Node]:
    """``nodes`` with a recurrence for the concatenation ``name``, or what was given."""
    by_name = {node.name: node for node in nodes}
    parts = list(refs(by_name[name].args[:1]))
    for with_sums in (False, True) if sums else (False,):
        if with_sums:
            by_name = {node.name: selected(node, by_name) for node in nodes}
        for direction in (1, -1):
            with suppress(_Other):
                steps = _steps(by_name, parts[::direction], with_sums)
                return _replaced(list(by_name.values()), by_name[name], steps, direction, with_sums)
    return given


def _steps(nodes: dict[str, Node], parts: Sequence[str], sums: bool) -> _Steps:
    steps = _Steps(nodes, parts, list(_own(nodes, parts)))
    for own in steps.own[1:]:
        if not 0 < len(own) <= _MOST_NODES:
            raise _Other
        if not all(_is_plain(nodes[name]) or (sums and may_sum(nodes[name])) for name in own):
            raise _Other
    roles = [_matched(steps, number) for number in range(2, len(parts))]
    if not steps.states:
        raise _Other
    for before, role in pairwise(roles):
        if any(before.get(after) != role.get(state) for state, after in steps.states.items()):
            raise _Other
    shape = squeezed(shape_of(nodes[parts[1]]))
    if not sums and any(squeezed(shape_of(nodes[state])) != shape for state in steps.states):
        raise _Other
    if not shape or (sums and not any(is_sum(nodes[name]) for name in steps.own[1])):
        raise _Other
    steps.last = {roles[-1][after]: number for number, after in enumerate(steps.states.values()) if after in roles[-1]}
    return steps


def _own(nodes: dict[str, Node], parts: Iterable[str]) -> Iterator[set[str]]:
    seen: set[str] = set()
    for part in parts:
        new: set[str] = set()
        stack = [part]
        while stack:
            name = stack.pop()
            if name not in seen and nodes[name].op == "call":
                seen.add(name)
                new.add(name)
                stack.extend(operands(nodes[name]))
        yield new


def _is_plain(node: Node) -> bool:
    name = base_name(node.target)
    fits = len(node.values) == 1 and node.values[0].dtype in SUPPORTED
    return fits and (is_pointwise(node.target) or name in VIEWS) and not name.endswith("_")


def _matched(steps: _Steps, number: int) -> dict[str, str]:
    """What of step ``number`` has the places of the second step's nodes and states.

    Raises:
        _Other: the step is another.
    """
    roles: dict[str, str] = {}
    stack = [(steps.parts[1], steps.parts[number])]
    while stack:
        ours, theirs = stack.pop()
        if ours in roles:
            if roles[ours] != theirs:
                raise _Other
            continue
        if ours in steps.own[1]:
            if theirs not in steps.own[number]:
                raise _Other
            stack += _operands(steps, steps.nodes[ours], steps.nodes[theirs], number)
        elif ours == theirs and ours not in steps.states:
            continue
        elif number == 2 and theirs in steps.own[1]:
            steps.states[ours] = theirs
        elif ours not in steps.states:
            raise _Other
        roles[ours] = theirs
    return roles


def _operands(steps: _Steps, ours: Node, theirs: Node, number: int) -> list[tuple[str, str]]:
    """Pairs of nodes that both read; what else they are given must be the same, or move with the steps."""
    if ours.target != theirs.target or str(ours.values) != str(theirs.values):
        raise _Other
    first, second = list(operands(ours)), list(operands(theirs))
    if len(first) != len(second) or len(ours.args) != len(theirs.args):
        raise _Other
    names = dict(zip(second, first, strict=True))
    same = renamed(theirs, names)
    for place, (left, right) in enumerate(zip(ours.args, same.args, strict=True)):
        if type(left) is int and type(right) is int and base_name(ours.target) in ("select", "slice"):
            key = ours.name, place
            if number == 2:
                steps.moving[key] = left, right - left
            start, stride = steps.moving.get(key, (left, 0))
            if right != start + stride * (number - 1):
                raise _Other
        elif left != right:
            raise _Other
    if ours.kwargs != same.kwargs:
        raise _Other
    return list(zip(first, second, strict=True))


def _first(steps: _Steps) -> tuple[int, tuple[str, ...]]:
    """The first step that is like the second, and what it reads in the place of states."""
    with suppress(_Other):
        roles = _matched(steps, 0)
        start = tuple(roles[state] for state in steps.states)
        shapes = [(shape_of(steps.nodes[name]), steps.nodes[name].values[0].dtype) for name in (*start, *steps.states)]
        if shapes[: len(start)] == shapes[len(start) :]:
            return 0, start
    return 1, tuple(steps.states)


def _replaced(nodes: list[Node], cat: Node, steps: _Steps, direction: int, sums: bool) -> list[Node]:
    """``nodes`` with the recurrence where its last step is; what else reads a step's result reads it from there."""
    begin, start = _first(steps)
    moving = [(view, place, value, stride) for (view, place), (value, stride) in steps.moving.items() if stride]
    recurrence = Recurrence(
        dim=_dim(cat),
        count=len(steps.parts),
        direction=direction,
        begin=begin,
        parts=(steps.parts[0], steps.parts[1]),
        own=tuple(node.name for node in nodes if node.name in steps.own[1]),
        states=tuple(steps.states),
        after=tuple(steps.states.values()),
        start=start,
        moving=tuple(moving),
    )
    inside = {name: number for number, own in enumerate(steps.own) for name in own if number}
    results = _results(steps, recurrence, cat)
    target, made = RECURRENCE, list[Node]()
    if sums:
        target, (recurrence, made) = STEPS, _with_sums(recurrence, steps, cat)
        results = {**_last(steps, cat), **results}
    kept: list[Node] = []
    names: dict[str, str] = {}
    is_made = False
    dead = _dead(nodes) if sums else set()
    end = [node.name for node in nodes if node.name in set(steps.parts)][-1]
    for node in nodes:
        if node.name == cat.name or node.name in dead:
            continue
        if node.name not in inside and not (sums and node.op == "size"):
            outside = [name for name in operands(node) if name in inside]
            if outside and not (is_made and all(name in results for name in outside)):
                raise _Other
            for name in outside:
                if name not in names:
                    kept.append(results[name])
                    names[name] = results[name].name
            node = renamed(node, names)
        kept.append(node)
        if node.name == end:
            kept += [*made, structs.replace(cat, target=target, args=recurrence.args(), kwargs={})]
            is_made = True
    return kept


def _dead(nodes: Sequence[Node]) -> set[str]:
    """Calls whose results nothing needs."""
    live: set[str] = set()
    for node in reversed(nodes):
        if node.op != "call" or node.expr or node.name in live:
            live.update(() if node.op == "size" else operands(node))
            live.add(node.name)
    return {node.name for node in nodes} - live


def _with_sums(recurrence: Recurrence, steps: _Steps, cat: Node) -> tuple[Recurrence, list[Node]]:
    """The recurrence with nodes of its own, and these: nothing else reads the steps, so they are not computed twice."""
    nodes = steps.nodes
    held = {state: f"{cat.name}_state{number}" for number, state in enumerate(recurrence.states)}
    carried = [Node(name=held[s], op="call", target=CARRIED, values=nodes[s].values) for s in recurrence.states]
    own = [nodes[name] for name in recurrence.own]
    result = spelled(own, nodes, held, {(view, at): rest for view, at, *rest in recurrence.moving}, f"{cat.name}_")
    if result is None:
        raise _Other
    names, part = result.names, result.names[recurrence.parts[1]]
    changed = replace(
        recurrence,
        parts=(recurrence.parts[0] if recurrence.begin else part, part),
        own=tuple(node.name for node in result.own),
        states=tuple(held.values()),
        after=tuple(names[after] for after in recurrence.after),
        moving=tuple((view, at, value, stride) for (view, at), (value, stride) in result.moving.items()),
    )
    return changed, [*result.before, *carried, *result.own]


def _last(steps: _Steps, cat: Node) -> dict[str, Node]:
    """Reads of what the last step leaves, by the node that they stand for."""
    reads = {}
    for name, number in steps.last.items():
        args = (Ref(name=cat.name), number)
        values = steps.nodes[name].values
        reads[name] = Node(name=f"{cat.name}_last{number}", op="call", target=LAST, args=args, values=values)
    return reads


def _results(steps: _Steps, recurrence: Recurrence, cat: Node) -> dict[str, Node]:
    """Reads from the concatenation, by the node of a step that they stand for."""
    results = {}
    dim = recurrence.dim
    for number, part in enumerate(steps.parts):
        place = number if recurrence.direction > 0 else recurrence.count - 1 - number
        node, name = steps.nodes[part], f"{cat.name}_step{place}"
        length = shape_of(node)[dim]
        args = (Ref(name=cat.name), dim, size_argument(length * place), size_argument(length * (place + 1)))
        results[part] = Node(name=name, op="call", target="aten.slice.Tensor", args=args, values=node.values)
        if node.target == "aten.unsqueeze.default" and node.args[1] in (dim, dim - len(node.values[0].shape)):
            inner, taken = steps.nodes[next(refs(node.args))], (Ref(name=cat.name), dim, place)
            results[inner.name] = Node(
                name=f"{name}_inner", op="call", target="aten.select.int", args=taken, values=inner.values
            )
    return results
