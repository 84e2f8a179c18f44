"""The loops of a recurrence's kernel: which dimensions are independent points, and which a step sums over."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..ir.loops import Part
from ..ir.poly import Poly, variable
from ..ir.scalar import Scalar, rewrite


@dataclass
class Value:
    """What a step computes: its ``local``, the variables of its place, and of what it is made."""

    name: str
    """Empty: the result."""
    at: tuple[str, ...]
    value: Scalar
    dtype: str
    summed: tuple[str, ...] | None = None


@dataclass
class Points:
    """Variables of a step's values, and what they are in the kernel."""

    names: dict[str, Poly]
    """The kernel's variables by those of the values."""
    free: tuple[str, ...]
    """The kernel's variables of its dimensions."""
    sizes: dict[str, Poly]
    """Of all the kernel's variables."""
    at: dict[str, tuple[str, ...]]
    """Places of what steps keep, as the kernel's variables."""
    is_wide: bool

    @classmethod
    def of(
        cls, values: Sequence[Value], out: Sequence[str], bounds: Mapping[str, Poly], step: str, whole: set[str]
    ) -> "Points":
        """The loops of ``values``.

        Args:
            values: what a step computes; states are called ``next0``, …, and read as ``state0``, … before the step.
            out: variables of the result's place, outermost first.
            bounds: sizes of all variables.
            step: the variable of the step.
            whole: states that must be there at every point.
        """
        at = {value.name: value.at for value in values}
        at |= {name.replace("next", "state"): places for name, places in at.items() if name.startswith("next")}
        parents: dict[str, str] = {}

        def root(name: str) -> str:
            while name in parents:
                name = parents[name]
            return name

        crossed = {name for value in values for name in value.summed or ()}
        for read in (node for value in values for node in value.value.walk() if node.op == "local"):
            for place, own in zip(read.polys, at[read.data], strict=True):
                if not place.is_name or place.names.isdisjoint(bounds):
                    crossed |= {own, *(name for name in place.names if name in bounds)}
                elif (a := root(_name(place))) != (b := root(own)):
                    parents[a] = b
        crossed = {root(name) for name in crossed}

        def is_free(name: str) -> bool:
            group = root(name)
            members = [[n for n in value.at if root(n) == group] for value in values]
            lone = all(len(found) <= 1 for found in members)
            present = all(found for found, value in zip(members, values, strict=True) if value.name in whole | {""})
            equal = all(bounds[n] == bounds[name] for found in members for n in found)
            return group not in crossed and lone and present and equal

        free = [name for name in out if is_free(name)]
        kernel = {root(name): f"i{number}" for number, name in enumerate(free)}
        names = {step: variable(f"i{len(free)}")}
        for name in bounds:
            names[name] = variable(kernel.get(root(name), f"i{len(free) + len(names)}"))
        sizes = {_name(names[name]): size for name, size in bounds.items()}
        places = {name: tuple(_name(names[n]) for n in own) for name, own in at.items()}
        is_wide = bool(free) and free[-1] == out[-1]
        return cls(names, tuple(kernel.values()), sizes, places, is_wide)

    @property
    def dims(self) -> tuple[Poly, ...]:
        """Sizes of the kernel's dimensions."""
        return tuple(self.sizes[name] for name in self.free)

    @property
    def wide(self) -> str:
        """The variable that vectors go along; empty if there is none for all values."""
        return self.free[-1] if self.is_wide else ""

    @property
    def step(self) -> str:
        """The variable of the step."""
        return f"i{len(self.free)}"

    def renamed(self, place: Poly) -> Poly:
        """``place`` in the kernel's variables."""
        return place.substitute(self.names)

    def part(self, value: Value) -> Part:
        """``value`` in the kernel's variables; places are those of the dimensions that are not the kernel's."""

        def change(node: Scalar) -> Scalar | None:
            if node.op != "local" or node.data.startswith("@"):
                return None
            pairs = list(zip(node.polys, self.at[node.data], strict=True))
            polys = [place for place, own in pairs if own not in self.free]
            polys += [place for place, own in pairs if own == self.wide]
            return Scalar("local", node.dtype, polys=tuple(polys), data=f"@{node.data}")

        def back(node: Scalar) -> Scalar | None:
            if node.op == "local" and node.data.startswith("@"):
                return Scalar("local", node.dtype, polys=node.polys, data=node.data[1:])
            return None

        body = rewrite(rewrite(value.value, change, self.names), back)
        own = [_name(self.names[name]) for name in value.at]
        over = tuple(name for name in own if name not in self.free)
        summed = None if value.summed is None else tuple(_name(self.names[name]) for name in value.summed)
        is_wide = bool(self.wide) and (self.wide in own or self.wide in body.names)
        return Part(value.name, value.dtype, over, body, summed, is_wide)

    def axes(self, parts: Iterable[Part]) -> dict[str, Poly]:
        """Sizes of the loops inside of ``parts``."""
        used = {name for part in parts for name in (*part.over, *(part.summed or ()))}
        return {name: size for name, size in self.sizes.items() if name in used}


def _name(place: Poly) -> str:
    """The variable that a place is."""
    (((name,), _),) = place.terms
    assert isinstance(name, str)
    return name
