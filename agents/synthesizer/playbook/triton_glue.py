"""The Python side of a Triton candidate: reads sizes, allocates outputs, launches kernels and PyTorch in order."""

from ....hardware.work import refs
from ....schemas import Node
from .aten import call, pyname, unbacked
from .cpp import Library
from .glue import Glue
from .loops import Buffer, Kernel, SpecialKernel
from .printing import python_poly
from .regions import Plan
from .triton import TritonLibrary
from .triton_launch import TritonKernel


class TritonGlue(Glue):
    """Statements of the candidate's function, in order of execution."""

    def __init__(self, plan: Plan, library: TritonLibrary) -> None:
        super().__init__(plan, Library("", {}))
        self.printed = library
        self.moved: set[str] = set()

    def head(self, tensors: list[str]) -> list[str]:
        """Everything happens where the first tensor is."""
        nodes = [n for n in self.plan.graph.nodes if n.op in ("input", "param") and n.values]
        return [f"device = {pyname(nodes[0].name)}.device"] if nodes else ['device = "cuda"']

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
        text = call(node, self._tensor)
        if not any(refs((*node.args, *node.kwargs.values()))) and node.target.startswith("aten."):
            text = f"{text[:-1]}, device=device)"
        self.lines.append(f"{node.expr or pyname(node.name)} = {text}")
        self.lines += unbacked(node, self.known)
        self.present.add(node.name)

    def _allocate(self, name: str) -> None:
        super()._allocate(name)
        self.lines[-1] = f"{self.lines[-1][:-1]}, device=device)"

    def _scratch(self, buffer: Buffer) -> None:
        shape = "".join(f"{python_poly(size)}, " for size in buffer.shape)
        text = f"torch.empty(({shape}), dtype=torch.{buffer.dtype}, device=device)"
        self.lines.append(f"{pyname(buffer.name)} = {text}")

    def _kernel(self, kernel: "Kernel | SpecialKernel") -> None:
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
                self._allocate(name)
                self.contiguous[name] = pyname(name)
        self._launch(printed)

    def _launch(self, printed: TritonKernel) -> None:
        launch = printed.launch
        arguments: dict[str, str] = {}
        for parameter, name, _ in launch.tensors:
            if parameter in launch.views:
                arguments[parameter] = self._tensor(name)
            else:
                arguments[parameter] = self._pointer(name).removesuffix(".data_ptr()")
        keywords = [f"{name}={text.format(**arguments) if '{' in text else text}" for name, text in launch.numbers]
        keywords += [f"{name}={value}" for name, value in launch.options.items()]
        # BLOCK is named in other expressions: it is computed once, before the launch.
        block = dict(launch.numbers).get("BLOCK")
        if block is not None:
            self.lines.append(f"BLOCK = {block}")
            keywords = [k if not k.startswith("BLOCK=") else "BLOCK=BLOCK" for k in keywords]
        grid = "".join(f"{text}, " for text in launch.grid)
        self.lines.append(f"{launch.kernel}[({grid})]({', '.join([*arguments.values(), *keywords])})")
