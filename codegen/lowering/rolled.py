"""Prints repeated PyTorch calls of a captured scan as a Python loop, so that the file stays short."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec import structs

from ...schemas import Arg, Expr, Items, Node, Ref
from .renaming import renamed

FEWEST = 8
"""Steps that a loop is made for."""
_LONGEST, _TRIES = 96, 4
"""Calls of a step; lengths of a step that are tried."""
STEP = "_step"
"""The variable that counts."""


@dataclass
class Loop:
    """Steps that are the same calls, of what the step before computed, and of what moves with the steps."""

    body: list[Node]
    """The first step's names, and what the second reads."""
    blocks: list[list[Node]]
    carried: dict[str, str] = field(default_factory=dict)
    """What the first step reads in the place of what a step leaves, by the name of that in the first step."""
    moving: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Numbers, by call and leaf: the first step's, and how far it moves in a step."""
    listed: dict[tuple[int, int], tuple["Loop", int, int, int]] = field(default_factory=dict)
    """Results of an earlier loop's steps: the loop, the call in it, the step, and how far it moves."""
    kept: set[int] = field(default_factory=set)
    """Calls of which every step's result is read later."""


@dataclass(frozen=True)
class _Form:
    """What a call is but for what may differ from step to step."""

    shape: str
    leaves: tuple[str | int, ...]
    """Names that it reads, and whole numbers."""


Step = Node | Loop


def rolled(calls: Sequence[Node], results: Iterable[str]) -> list[Step]:
    """The calls in their order, with loops where steps repeat; ``results`` are read behind them."""
    rolling = _Rolling(calls)
    steps = rolling.steps()
    rolling.read(tuple(results))
    return steps


class Names:
    """What a name is in the text with loops."""

    def __init__(self, steps: Sequence[Step], plain: Callable[[str], str]) -> None:
        self.plain = plain
        self.texts: dict[str, str] = {}
        for loop in (step for step in steps if isinstance(step, Loop)):
            for place, node in enumerate(loop.body):
                for number, block in enumerate(loop.blocks):
                    name = plain(node.name)
                    self.texts[block[place].name] = f"{name}_steps[{number}]" if place in loop.kept else name

    def __call__(self, name: str) -> str:
        """The text that stands for a node behind all loops that compute it."""
        return self.texts.get(name) or self.plain(name)

    def lines(self, loop: Loop, call: Callable[[Node, Node, Callable[[str], str]], str]) -> list[str]:
        """The statements of a loop; ``call`` prints a node as another one, with names as texts."""
        lines = [f"{self.plain(name)} = {self(start)}" for name, start in loop.carried.items()]
        lines += [f"{self.plain(loop.body[place].name)}_steps = []" for place in sorted(loop.kept)]
        lines.append(f"for {STEP} in range({len(loop.blocks)}):")
        own = {node.name for node in loop.body}
        for place, node in enumerate(loop.body):
            text = call(
                node, self._moved(loop, place, node), lambda name: self.plain(name) if name in own else self(name)
            )
            lines.append(f"    {self.plain(node.name)} = {text}")
            if place in loop.kept:
                lines.append(f"    {self.plain(node.name)}_steps.append({self.plain(node.name)})")
        return lines

    def _moved(self, loop: Loop, place: int, node: Node) -> Node:
        """A call of a step with what moves as an expression of the step."""
        count = iter(range(1 << 30))

        def visit(arg: Arg) -> Arg:
            if isinstance(arg, Items):
                return Items(items=tuple(map(visit, arg.items)))
            if not _is_leaf(arg):
                return arg
            key = place, next(count)
            if key in loop.moving:
                return Expr(value=_at(*loop.moving[key]))
            if key in loop.listed:
                source, at, start, stride = loop.listed[key]
                return Expr(value=f"{self.plain(source.body[at].name)}_steps[{_at(start, stride)}]")
            return arg

        args = tuple(map(visit, node.args))
        return structs.replace(node, args=args, kwargs={key: visit(arg) for key, arg in node.kwargs.items()})


def shortened(text: str) -> str:
    """``text`` with whole runs of a loop's results, one after the other, as the list that they are."""

    def run(match: re.Match[str]) -> str:
        name, parts = match[1], match[0].split(", ")
        numbers = [int(part[len(name) + 1 : -1]) for part in parts]
        ways = {b - a for a, b in pairwise(numbers)}
        if len(numbers) < FEWEST or len(ways) != 1 or not ways <= {1, -1}:
            return match[0]
        first, last = sorted((numbers[0], numbers[-1]))
        part = f"{name}[{first}:{last + 1}]"
        return f"*{part}" if ways == {1} else f"*{part}[::-1]"

    short = re.sub(r"\b(\w+_steps)\[\d+\](?:, \1\[\d+\])+", run, text)
    # A tuple of nothing else needs a comma; a call may have one.
    return re.sub(r"\((\*\w+_steps\[\d+:\d+\](?:\[::-1\])?)\)", r"(\1,)", short)


class _Rolling:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.index = {node.name: place for place, node in enumerate(nodes)}
        self.forms = [_form(node) for node in nodes]
        self.places: dict[str, tuple[Loop, int, int]] = {}
        """Loop, call and step of every call in a loop."""

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        begin = 0
        while begin < len(self.nodes):
            loop = self._loop(begin)
            steps.append(loop or self.nodes[begin])
            if loop is None:
                self.read(self.forms[begin].leaves)
                begin += 1
                continue
            for number, block in enumerate(loop.blocks):
                for place, node in enumerate(block):
                    self.places[node.name] = loop, place, number
            begin += len(loop.body) * len(loop.blocks)
        return steps

    def read(self, leaves: Sequence[str | int]) -> None:
        """Notes that a call outside reads these."""
        for name in leaves:
            if isinstance(name, str) and name in self.places:
                loop, place, number = self.places[name]
                if number + 1 < len(loop.blocks):
                    loop.kept.add(place)

    def _loop(self, begin: int) -> Loop | None:
        form, tries = self.forms[begin].shape, 0
        for length in range(1, min(_LONGEST, (len(self.nodes) - begin) // FEWEST) + 1):
            if self.forms[begin + length].shape != form or not form:
                continue
            loop = self._matched(begin, length)
            if loop is not None:
                return loop
            tries += 1
            if tries == _TRIES:
                return None
        return None

    def _matched(self, begin: int, length: int) -> Loop | None:
        """A loop of steps of so many calls from ``begin`` on."""
        first, second = self.nodes[begin : begin + length], self.nodes[begin + length : begin + 2 * length]
        loop = Loop([], [list(first)])
        while self._fits(loop, begin, length, len(loop.blocks)):
            at = begin + length * len(loop.blocks)
            loop.blocks.append(list(self.nodes[at : at + length]))
        if len(loop.blocks) < FEWEST:
            return None
        names = {node.name: first[place].name for place, node in enumerate(second)}
        loop.body = [structs.replace(renamed(node, names), name=first[place].name) for place, node in enumerate(second)]
        for source, at, _, _ in loop.listed.values():
            source.kept.add(at)
        for start in loop.carried.values():
            self.read((start,))
        for form in self.forms[begin : begin + length]:
            self.read(tuple(leaf for leaf in form.leaves if leaf not in names.values()))
        return loop

    def _fits(self, loop: Loop, begin: int, length: int, number: int) -> bool:
        """Whether the step ``number`` is like the second, or the second like the first."""
        there_is = begin + length * (number + 1) <= len(self.nodes)
        return there_is and all(self._is_like(loop, begin, length, number, offset) for offset in range(length))

    def _is_like(self, loop: Loop, begin: int, length: int, number: int, offset: int) -> bool:
        ours = self.forms[begin + length * number + offset]
        second, zeroth = self.forms[begin + length + offset], self.forms[begin + offset]
        if not ours.shape or ours.shape != zeroth.shape:
            return False
        return all(
            self._is_leaf_like(loop, begin, length, number, offset, leaf, values)
            for leaf, values in enumerate(zip(zeroth.leaves, second.leaves, ours.leaves, strict=True))
        )

    def _is_leaf_like(
        self, loop: Loop, begin: int, length: int, number: int, offset: int, leaf: int, values: tuple[str | int, ...]
    ) -> bool:
        zeroth, second, ours = values
        if isinstance(zeroth, int) or isinstance(second, int) or isinstance(ours, int):
            if not (isinstance(zeroth, int) and isinstance(second, int) and isinstance(ours, int)):
                return False
            if second != zeroth:
                loop.moving[offset, leaf] = zeroth, second - zeroth
            return ours == zeroth + (second - zeroth) * number
        place = self.index.get(second, -1) - begin
        if 0 <= place < 2 * length:
            # Of this step, or of the one before: then it must not have been computed anew.
            if self.index.get(ours, -1) != self.index[second] + length * (number - 1):
                return False
            if place >= length:
                return self.index.get(zeroth, -1) - begin == place - length
            is_before = self.index.get(zeroth, -1) < begin
            role = self.nodes[begin + place].name
            return is_before and place >= offset and loop.carried.setdefault(role, zeroth) == zeroth
        here, one, other = (self.places.get(name) for name in values)  # type: ignore[arg-type]
        if zeroth != second and here and one and other:
            stride = one[2] - here[2]
            loop.listed[offset, leaf] = here[0], here[1], here[2], stride
            return {entry[0] is here[0] and entry[1] == here[1] for entry in (one, other)} == {True} and (
                other[2] == here[2] + stride * number
            )
        return zeroth == second == ours


def _at(start: int, stride: int) -> str:
    """Where something that moves is in a step."""
    moved = STEP if stride == 1 else f"{stride} * {STEP}"
    return f"{start} + {moved}" if start else moved


def _is_leaf(arg: Arg) -> bool:
    return isinstance(arg, Ref) or type(arg) is int


def _form(node: Node) -> _Form:
    """No shape: the call is like no other."""
    leaves: list[str | int] = []

    def visit(arg: Arg) -> str:
        if isinstance(arg, Items):
            return f"[{','.join(map(visit, arg.items))}]"
        if isinstance(arg, Ref):
            leaves.append(arg.name)
            return "@"
        if type(arg) is int:
            leaves.append(arg)
            return "#"
        return repr(arg)

    arguments = [*map(visit, node.args), *(f"{key}={visit(arg)}" for key, arg in node.kwargs.items())]
    metas = [(meta.dtype, meta.shape) for meta in node.values]
    measured = any(isinstance(size, str) and re.search(r"\bu\d", size) for _, shape in metas for size in shape)
    if node.expr or measured:
        return _Form("", tuple(leaves))
    return _Form(f"{node.target}({','.join(arguments)}){metas}", tuple(leaves))
