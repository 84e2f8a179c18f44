"""Recurrent layers in one kernel (Diamos et al. 2016, "Persistent RNNs"): weights stay on the chip for all steps.

Each program has the weights of a few units of one layer, and takes all steps for them. What a step gives is written to
memory; a counter for each layer and step says how many programs have written theirs, and who reads it waits for all.
While a layer is at a step, the layer below is at the next one: a layer more takes a step more, not all steps again.
Programs wait for each other, so all of them must be on the device at once: a cooperative launch asks for that.

An fp32 number is multiplied as two in bfloat16, with 16 bits between them; of their four products the smallest is left
out. A product is 30 times as exact as in TF32 and takes as much memory; over many steps it adds up to 10 to 30 times
the error of fp32. Six layers of an LSTM of 256 units take 3.8 us for a step, 1.95 ms for 512 (H200), as with one
product in TF32. Three products in TF32 are as exact as fp32, and as slow as the library (7.4 ms).

To read the states themselves until they are there, without counters, took as long: the loop over a tile costs what its
barriers save.
"""

from collections.abc import Iterator
from functools import cached_property

from ...hardware.machine.work import refs
from ...schemas import Node, Ref
from ..ir.loops import Buffer
from ..ir.poly import poly, product
from ..ir.printing import python_poly
from ..lowering.plan import Plan
from ..lowering.views import shape_of
from .function_text import function_text
from .launch import MOST_ELEMENTS, Launch, TritonKernel
from .layout import contiguous
from .prepare import Sizes
from .recurrent_layers import GATES, LAST_STATES, SUMS, WIDE, columns_of_a_warp, has_room, pieces, rows_of
from .rows import indent
from .scope import pname
from .text import TritonNeeds
from .tunables import GpuSettings

_AT_ONCE = (
    "not torch.cuda.is_available()"
    " or torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count >= {programs}"
)
"""A cooperative launch on a smaller device than the one it was made for raises an error."""


def recurrent_layers(
    node: Node, plan: Plan, sizes: Sizes, settings: GpuSettings, needs: TritonNeeds, conditions: list[str]
) -> tuple[TritonKernel, list[Buffer], list[str]]:
    """The kernel of one node, what its programs hand each other, and the nodes of last states that it writes."""
    kernel = _Kernel(node, plan, sizes, settings, needs)
    conditions += kernel.conditions()
    return kernel.printed(), [kernel.seen, kernel.kept], list(kernel.last.values())


class _Kernel:
    """A launch for some layers."""

    def __init__(self, node: Node, plan: Plan, sizes: Sizes, settings: GpuSettings, needs: TritonNeeds) -> None:
        self.node, self.nodes, self.needs = node, plan.nodes, needs
        self.cell, self.dtype = str(node.kwargs["cell"]), node.values[0].dtype
        self.layers, self.directions, self.first, self.units = (
            int(node.kwargs[name])  # type: ignore[arg-type]
            for name in ("layers", "directions", "first", "units")
        )
        ahead, states, weights = (list(refs([argument])) for argument in node.args)
        self.inputs, self.begin, self.states, self.weights = (
            ahead[: self.directions],
            ahead[self.directions :],
            states,
            weights,
        )
        self.which = self.layers * self.directions
        """Layers and directions: each is worked on by programs of its own."""
        self.width = node.values[0].example[-1]
        self.hidden = self.width // self.directions
        self.parts = -(-self.hidden // self.units)
        self.sums, self.columns = SUMS[self.cell], self.units * SUMS[self.cell]
        self.lines = GATES[self.cell] * self.hidden
        self.of_a_warp = columns_of_a_warp(self.hidden, self.dtype, self.layers)
        shape = shape_of(node)
        self.batch, self.steps = (shape[0], shape[1]) if node.kwargs["batch_first"] else (shape[1], shape[0])
        self.rows = next(
            rows
            for rows in (rows_of(sizes.most(self.batch)), rows_of(sizes.of(self.batch)))
            if has_room(self.hidden, self.dtype, self.columns, self.layers, rows, settings)
        )
        """Of the largest batch of the problem's shapes where they fit, else of the main shape's."""
        self.seen = Buffer(f"{node.name}_seen", "int32", (poly(self.which), self.steps), zeroed=True)
        # The states of every step, as the next ones multiply them.
        self.is_split = self.dtype == "float32"
        kept = (poly(len(self._parts)), poly(self.layers), self.steps, self.batch, poly(self.width))
        self.kept = Buffer(f"{node.name}_kept", "bfloat16" if self.is_split else self.dtype, kept)
        self.last = {
            int(n.args[1]): n.name  # type: ignore[arg-type]
            for n in plan.graph.nodes
            if n.target == LAST_STATES and n.args[0] == Ref(name=node.name)
        }

    def conditions(self) -> list[str]:
        """What must hold of the sizes."""
        sizes = [product(self.kept.shape), *(product(shape_of(self.nodes[name])) for name in self.inputs)]
        return [
            f"{python_poly(self.batch)} <= {self.rows}",
            _AT_ONCE.format(programs=self.which * self.parts),
            *(f"{python_poly(size)} <= {MOST_ELEMENTS}" for size in sizes),
        ]

    def printed(self) -> TritonKernel:
        """Text and launch."""
        name = pname(f"layers_{self.node.name}")
        strides = [python_poly(stride) for stride in contiguous(shape_of(self.nodes[self.inputs[0]]))[:2]]
        to = [python_poly(stride) for stride in contiguous(shape_of(self.node))[:2]]
        numbers = [("steps", python_poly(self.steps)), ("batch", python_poly(self.batch))]
        for names, values, key in (
            (("x_t", "x_b"), strides, "inputs_batch_first"),
            (("to_t", "to_b"), to, "batch_first"),
        ):
            numbers += zip(names, values[::-1] if self.node.kwargs[key] else values, strict=True)
        numbers += [("first", str(self.first)), ("HIDDEN", str(self.hidden)), ("PARTS", str(self.parts))]
        tensors = self._tensors()
        text = function_text(name, tensors, numbers, set(), list(self._lines()), f"recurrent layers: {self.cell}")
        options: dict[str, str | int] = {"num_warps": self._warps, "launch_cooperative_grid": True}
        launch = Launch(name, (str(self.which * self.parts),), tensors, tuple(numbers), options)
        return TritonKernel(text, launch, (self.node.name, *self.last.values(), self.seen.name, self.kept.name))

    @property
    def _carried(self) -> str:
        """What a step takes over of its own units, by letter."""
        return {"lstm": "c", "gru": "h"}.get(self.cell, "")

    @property
    def _warps(self) -> int:
        return max(1, self.columns // self.of_a_warp)

    @property
    def _roles(self) -> list[tuple[str, ...]]:
        """What each layer and direction has of its own, by parameter."""
        biases = ("b_h", "b_x") if self.node.kwargs["has_biases"] else ()
        later = tuple(role for pair in zip(("w_h", "w_x"), biases or ("", ""), strict=True) for role in pair if role)
        return [later[: len(later) // 2] if which < self.directions else later for which in range(self.which)]

    def _tensors(self) -> tuple[tuple[str, str, str], ...]:
        tensors = [(f"inputs{number}_ptr", name) for number, name in enumerate(self.inputs)]
        tensors += [(f"begin{number}_ptr", name) for number, name in enumerate(self.begin)]
        if self._carried and self.states:
            tensors.append((f"{self._carried}0_ptr", self.states["hc".index(self._carried)]))
        parameters = [f"{role}{which}_ptr" for which, roles in enumerate(self._roles) for role in roles]
        tensors += zip(parameters, self.weights, strict=True)
        tensors += [("to_ptr", self.node.name)]
        tensors += [(f"{'_hc'[index]}_last_ptr", name) for index, name in sorted(self.last.items())]
        typed = tuple((parameter, name, self.dtype) for parameter, name in tensors)
        own = (("kept_ptr", self.kept), ("seen_ptr", self.seen))
        return (*typed, *((parameter, buffer.name, buffer.dtype) for parameter, buffer in own))

    def _lines(self) -> Iterator[str]:
        yield from self._chosen()
        yield from self._begin()
        yield from self._step("0")
        yield "for step in range(1, steps):"
        yield from indent(list(self._step("step")))
        for index in sorted(self.last):
            letter = "_hc"[index]
            yield f"tl.store({letter}_last_ptr + which * batch * HIDDEN + own_units, {letter}, mask=own_mask)"

    def _chosen(self) -> Iterator[str]:
        """What the program is for, and the pointers of that layer and direction."""
        yield "part = tl.program_id(0) % PARTS"
        yield "which = tl.program_id(0) // PARTS"
        roles = self._roles[-1]
        for which in range(self.which):
            # Of the first layer's programs, weights of a layer below are masked out: any pointer will do.
            numbers = [which if role in self._roles[which] else self.which - 1 for role in roles]
            values = [f"{role}{number}_ptr" for role, number in zip(roles, numbers, strict=True)]
            values += [f"begin{which}_ptr"] if self.begin else []
            values += [f"inputs{which if self.directions == 2 else 0}_ptr"]
            if self.which > 1:
                yield "else:" if which == self.which - 1 else f"{'el' * (which > 0)}if which == {which}:"
            names = ", ".join(f"{name}_ptr" for name in (*roles, *(["begin"] if self.begin else []), "inputs"))
            yield f"{'    ' * (self.which > 1)}{names} = {', '.join(values)}"

    def _begin(self) -> Iterator[str]:
        """What stays for all steps: columns, the sums of a unit in one thread or two of a warp, and their weights."""
        yield f"column = tl.arange(0, {self.columns})[None, :]"
        if self.sums == 4 and self.of_a_warp == WIDE:
            yield f"unit = part * {self.units} + column % {2 * self.units} // 2"
            yield f"gate = column // {2 * self.units} * 2 + column % 2"
        elif self.sums == 4:
            yield f"unit = part * {self.units} + column // 4"
            yield "gate = column % 4"
        else:
            yield f"unit = part * {self.units} + column"
            yield "gate = 0"
        yield "of_x = unit < HIDDEN"
        yield "of_h = of_x"
        if self.cell == "gru":
            # The new value's two sums are apart: only what comes of the state is scaled.
            yield "of_x = of_x & (gate != 3)"
            yield "of_h = of_h & (gate != 2)"
            yield "gate = tl.minimum(gate, 2)"
        yield "line = gate * HIDDEN + unit"
        if self.node.kwargs["has_biases"]:
            yield "bias_h = tl.load(b_h_ptr + line, mask=of_h, other=0.0).to(tl.float32)"
            if self.layers > 1:
                yield "bias_x = tl.load(b_x_ptr + line, mask=of_x & (which > 0), other=0.0).to(tl.float32)"
        for number, (start, piece) in enumerate(self._cuts):
            yield f"at{number} = {start} + tl.arange(0, {piece})"
            for side in "hx" if self.layers > 1 else "h":
                place = f"w_{side}_ptr + line * HIDDEN + at{number}[:, None]"
                mask = f"of_{side} & (at{number} < HIDDEN)[:, None]{' & (which > 0)' if side == 'x' else ''}"
                value = f"tl.load({place}, mask={mask}, other=0.0)"
                yield f"w_{side}{number} = {value}"
                yield from self._split(f"w_{side}{number}")
        yield f"row = tl.arange(0, {self.rows})[:, None]"
        yield "live = row < batch"
        yield f"own_unit = part * {self.units} + tl.arange(0, {self.units})[None, :]"
        yield "own_mask = live & (own_unit < HIDDEN)"
        yield "own_units = row * HIDDEN + own_unit"
        if self._carried and not self.states:
            yield f"{self._carried} = tl.zeros([{self.rows}, {self.units}], tl.float32)"
        elif self._carried:
            place = f"{self._carried}0_ptr + (first + which) * batch * HIDDEN + own_units"
            yield f"{self._carried} = tl.load({place}, mask=own_mask, other=0.0).to(tl.float32)"
        yield f"size = batch * {self.width}"
        yield "own_ptr = seen_ptr + which * steps"
        if self.is_split:
            yield f"rest = {self.layers} * steps * size"
        if self.layers > 1:
            yield "below_ptr = kept_ptr + (which - 1) * steps * size"
            yield "kept_ptr += which * steps * size"
        if self.directions == 2:
            yield "kept_ptr += which * HIDDEN"
            yield "to_ptr += which * HIDDEN"

    @cached_property
    def _cuts(self) -> list[tuple[int, int]]:
        """Of a sum over a layer's states: where its pieces start, and how long they are."""
        lengths = pieces(self.hidden, self.dtype)
        return [(sum(lengths[:number]), length) for number, length in enumerate(lengths)]

    def _step(self, step: str) -> Iterator[str]:
        at = f"tl.where(which == 0, {step}, steps - 1 - {step})" if self.directions == 2 else step
        yield f"at = tl.cast({at}, tl.int64)"
        mask = "live & of_x & (which == 0)" if self.layers > 1 else "live & of_x"
        inputs = f"tl.load(inputs_ptr + at * x_t + row * x_b + line, mask={mask}, other=0.0)"
        yield f"sums = {inputs}.to(tl.float32)"
        if self.layers > 1:
            yield from self._added("x", f"below_ptr + at * size + row * {self.width}", f"own_ptr - steps + {step}")
        if step == "0" and not self.begin:
            yield from ["sums += bias_h"] if self.node.kwargs["has_biases"] else []
        elif step == "0":
            first = f"tl.load(begin_ptr + row * {self.lines} + line, mask=live & of_h, other=0.0)"
            yield f"sums += {first}.to(tl.float32)"
        else:
            before = "step - 1" if self.directions == 1 else "tl.where(which == 0, step - 1, steps - step)"
            yield f"before = tl.cast({before}, tl.int64)"
            yield from self._added("h", f"kept_ptr + before * size + row * {self.width}", "own_ptr + step - 1")
        yield from self._cell()
        yield "kept = h"
        yield from self._split("kept")
        for part, offset in self._parts:
            place = f"kept_ptr + at * size + row * {self.width} + own_unit{offset}"
            yield f"tl.store({place}, kept{part}, mask=own_mask)"
        # Every thread's part is written before one says so.
        yield "tl.debug_barrier()"
        yield f'tl.atomic_add(own_ptr + {step}, 1, sem="release")'
        if self.layers > 1:
            yield f"if which == {self.layers - 1}:"
        indented = "    " * (self.layers > 1)
        yield f"{indented}tl.store(to_ptr + at * to_t + row * to_b + own_unit, h, mask=own_mask)"

    def _added(self, side: str, start: str, counter: str) -> Iterator[str]:
        """Add the products of states, once they are there, with the weights of a side, and its bias."""
        is_there = " & (which > 0)" if side == "x" else ""
        waiting = [f'while tl.atomic_add({counter}, 0, sem="acquire") < PARTS:', "    pass"]
        yield from ["if which > 0:", *indent(waiting)] if is_there else waiting
        for number, _ in enumerate(self._cuts):
            # Past the first cache: what lies there may be older than what others wrote.
            mask = f"live & (at{number} < HIDDEN)[None, :]{is_there}"
            for part, offset in self._parts:
                place = f"{start} + at{number}[None, :]{offset}"
                value = f'tl.load({place}, mask={mask}, other=0.0, cache_modifier=".cg")'
                yield f"{side}{number}{part} = {value}"
        yield "total = sums"
        if self.is_split:
            # By itself: then two sums are under way at a time.
            yield "small = tl.zeros_like(sums)"
        for number, _ in enumerate(self._cuts):
            left, right = f"{side}{number}", f"w_{side}{number}"
            if self.is_split:
                yield f"total = tl.dot({left}_1, {right}_1, total)"
                yield f"small = tl.dot({left}_1, {right}_2, small)"
                yield f"small = tl.dot({left}_2, {right}_1, small)"
            else:
                yield f"total = tl.dot({left}, {right}, total)"
        if self.is_split:
            # Of an infinite state the rest of a weight may make another infinity.
            yield 'total += tl.where(tl.abs(total) < float("inf"), small, 0.0)'
        if self.cell == "gru":
            # A sum that the side has no part in stays as it is: no infinite state times zero.
            yield f"total = tl.where(of_{side}, total, sums)"
        yield f"sums = total + bias_{side}" if self.node.kwargs["has_biases"] else "sums = total"

    @property
    def _parts(self) -> list[tuple[str, str]]:
        """Of a number that is multiplied: how the names of each end, and where they lie behind the first."""
        return [("_1", ""), ("_2", " + rest")] if self.is_split else [("", "")]

    def _split(self, name: str) -> Iterator[str]:
        if self.is_split:
            yield f"{name}_1 = {name}.to(tl.bfloat16)"
            yield f"{name}_2 = {self.needs.helper('ks_rest')}({name}, {name}_1.to(tl.float32)).to(tl.bfloat16)"

    def _cell(self) -> Iterator[str]:
        sigmoid, tanh = (self.needs.function(name, "float32") for name in ("sigmoid", "tanh"))
        if self.sums == 4 and self.of_a_warp != WIDE:
            yield f"even, odd = tl.split(tl.reshape(sums, [{self.rows}, {self.units}, 2, 2]))"
            yield "sum0, sum2 = tl.split(even)"
            yield "sum1, sum3 = tl.split(odd)"
        elif self.sums == 4:
            yield f"even, odd = tl.split(tl.reshape(sums, [{self.rows}, 2, {self.units}, 2]))"
            yield "sum0, sum2 = tl.split(tl.permute(even, (0, 2, 1)))"
            yield "sum1, sum3 = tl.split(tl.permute(odd, (0, 2, 1)))"
        if self.cell == "lstm":
            yield f"c = {sigmoid}(sum1) * c + {sigmoid}(sum0) * {tanh}(sum2)"
            yield f"h = {sigmoid}(sum3) * {tanh}(c)"
        elif self.cell == "gru":
            yield f"new = {tanh}(sum2 + {sigmoid}(sum0) * sum3)"
            yield f"h = new + {sigmoid}(sum1) * (h - new)"
        else:
            yield f"h = {tanh}(sums)" if self.cell == "tanh" else "h = tl.where(sums < 0.0, 0.0, sums)"
