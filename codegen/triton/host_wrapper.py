"""The Python side of a Triton candidate: reads sizes, allocates outputs, launches kernels and PyTorch in order."""

from ...schemas import Node, TensorMeta
from ..cpp.host_wrapper import MANY_VALUES, HostWrapper
from ..cpp.source import Library
from ..ir.loops import Buffer, Kernel, SpecialKernel
from ..ir.poly import Poly
from ..ir.printing import python_poly
from ..lowering.call_text import makes_tensor, pyname
from ..lowering.in_place import renewed
from ..lowering.plan import Plan
from ..lowering.views import shape_of
from .launch import TritonKernel
from .layout import Layout, layout_of
from .source import TritonLibrary

_GRID = 3
"""Dimensions of a grid."""


class TritonHostWrapper(HostWrapper):
    """Statements of the candidate's function, in order of execution."""

    def __init__(self, plan: Plan, library: TritonLibrary, suffix: str = "") -> None:
        """Names of functions that are made for ``plan`` end with ``suffix``."""
        super().__init__(plan, Library("", {}))
        self.printed = library
        self.suffix = suffix
        self.places = 0
        """Launches that are kept."""
        self.renewed: dict[str, str] = {}
        """By stored value, the input whose memory it takes."""
        self.moved: set[str] = set()
        self.fitted: set[str] = set()
        given = [node for node in plan.graph.nodes if node.op in ("input", "param") and node.values]
        self.is_long = len(given) > MANY_VALUES
        """Whether operands are not asked for their place before ``_fit`` is called, which asks as well."""

    def head(self, tensors: list[str]) -> list[str]:
        """Everything happens where the first tensor is."""
        nodes = [n for n in self.plan.graph.nodes if n.op in ("input", "param") and n.values]
        return [f"device = {pyname(nodes[0].name)}.device"] if nodes else ['device = "cuda"']

    def body(self, fallback: str) -> list[str]:
        """From sizes to the ``return``."""
        lines = super().body(fallback)
        if not self.places:
            return lines
        return [f"launched = _launched{self.suffix}({', '.join(['device', *self.plan.graph.symbols])})", *lines]

    def _tensor(self, name: str) -> str:
        node = self.plan.nodes[name]
        if node.op == "constant" and name not in self.moved and name not in self.present - {name}:
            self.moved.add(name)
            self.lines.append(f"{pyname(name)}_there = {pyname(name)}.to(device)")
        return f"{pyname(name)}_there" if name in self.moved else super()._tensor(name)

    def _extern(self, node: Node) -> None:
        if node.name in self.printed.fused:
            return
        if node.name in self.printed.replaced:
            self._run_all(node.name, self.printed.replaced[node.name])
            return
        super()._extern(node)

    def _library_call(self, node: Node) -> str:
        text = super()._library_call(node)
        return f"{text[:-1]}, device=device)" if makes_tensor(node) else text

    def _empty(self, meta: TensorMeta, shape: str, make: str = "empty") -> str:
        return f"torch.{make}({shape}, dtype=torch.{meta.dtype}, device=device)"

    def _scratch(self, buffer: Buffer) -> None:
        shape = "".join(f"{python_poly(size)}, " for size in buffer.shape)
        make = "zeros" if buffer.zeroed else "empty"
        self.lines.append(f"{pyname(buffer.name)} = torch.{make}(({shape}), dtype=torch.{buffer.dtype}, device=device)")

    def _kernel(self, kernel: "Kernel | SpecialKernel") -> None:
        if isinstance(kernel, Kernel):
            self.renewed |= renewed(self.plan, kernel)
        self._run_all(kernel.name, self.printed.kernels[kernel.name])

    def _run_all(self, name: str, kernels: list[TritonKernel]) -> None:
        for buffer in self.printed.scratch.get(name, []):
            self._scratch(buffer)
            self.present.add(buffer.name)
            self.contiguous[buffer.name] = pyname(buffer.name)
        for printed in kernels:
            self._run(printed)

    def _run(self, printed: TritonKernel) -> None:
        for name in printed.outputs:
            if name not in self.contiguous or name not in self.present:
                if name in self.renewed:
                    self._renew(name, self.renewed[name])
                else:
                    self._allocate(name)
                self.contiguous[name] = pyname(name)
        self._launch(printed)

    def _renew(self, name: str, source: str) -> None:
        """The new value of an input is written where the old one is, if a kernel can write there."""
        fitted, given = self._fitted(source), self._tensor(source)
        self._allocate(name)
        made = self.lines.pop().partition(" = ")[2]
        self.lines.append(f"{pyname(name)} = {given} if {fitted} is {given} else {made}")
        self.overwritten.add(source)

    def _operand(self, layout: Layout) -> str:
        """A tensor that begins where the operand does, in memory with the layout's strides."""
        base = self._fitted(layout.base, layout.given)
        if not layout.offset.terms:
            return base
        return f"{base}.as_strided((1,), (1,), {base}.storage_offset() + {python_poly(layout.offset)})"

    def _fitted(self, name: str, strides: tuple[Poly, ...] | None = None) -> str:
        """A value where kernels that were compiled ahead can read it: copied only if it lies elsewhere."""
        if strides is None and name in self.contiguous:
            return self.contiguous[name]
        node = self.plan.nodes[name]
        if strides is None and (layout := layout_of(name, self.plan)).base != name and layout.is_plain(shape_of(node)):
            self.contiguous[name] = self._fitted(layout.base)
            return self.contiguous[name]
        text = self._tensor(name)
        if self.plan.kernel_of(name) is not None or node.op == "constant":
            self.contiguous[name] = text
            return text
        given = "" if strides is None else f"({''.join(f'{python_poly(stride)}, ' for stride in strides)})"
        fitted = f"{text}_c" if strides is None else f"{text}_l"
        if fitted not in self.fitted:
            self.fitted.add(fitted)
            is_there = f"{text}.stride() == {given}" if given else f"{text}.is_contiguous()"
            copy = f"_fit({text}, {given})" if given else f"_fit({text})"
            asked = "" if self.is_long else f"{text} if {is_there} and not {text}.data_ptr() & 15 else "
            self.lines.append(f"{fitted} = {asked}{copy}")
        if strides is None:
            self.contiguous[name] = fitted
        return fitted

    def _launch(self, printed: TritonKernel) -> None:
        launch = printed.launch
        arguments: dict[str, str] = {}
        for parameter, name, _ in launch.tensors:
            layout = launch.layouts.get(parameter)
            arguments[parameter] = self._fitted(name) if layout is None else self._operand(layout)
        numbers = dict(launch.numbers)
        # BLOCK is named in other expressions: it is computed once, before the launch.
        if "BLOCK" in numbers:
            self.lines.append(f"BLOCK = {numbers['BLOCK']}")
            numbers["BLOCK"] = "BLOCK"
        if launch.symbols() - set(self.plan.graph.symbols):
            keywords = [f"{name}={text}" for name, text in (numbers | launch.options).items()]
            grid = "".join(f"{text}, " for text in launch.grid)
            self.lines.append(f"{launch.kernel}[({grid})]({', '.join([*arguments.values(), *keywords])})")
            return
        grid = ", ".join([*launch.grid, *["1"] * (_GRID - len(launch.grid))])
        options = ", ".join(f"{name!r}: {value}" for name, value in launch.options.items())
        given = ", ".join((arguments | numbers)[name] for name in printed.parameters())
        self.lines.append(f"_launch(launched, {self.places}, {launch.kernel}, ({grid}), {{{options}}}, {given})")
        self.places += 1
