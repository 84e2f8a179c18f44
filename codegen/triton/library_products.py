"""Products as kernels of the library: parameters, strides and launches."""

from ..ir.poly import ZERO, Poly
from ..ir.printing import python_poly
from ..lowering.plan import Plan
from .function_text import function_text, names_fixed, symbols_of, tensors_of
from .launch import Launch, TritonKernel
from .layout import Layout
from .product_text import ProductWriter
from .products import Product


def product_kernel(writer: ProductWriter, plan: Plan) -> TritonKernel:
    """The kernel that ``writer`` writes."""
    matmul, needs = writer.matmul, writer.scope.needs
    needs.floats = {}
    body = writer.lines()
    kernel, dtype = writer.kernel, matmul.node.values[0].dtype
    operands = tuple((f"ks_{side}_ptr", writer.value(side), dtype) for side in writer.read)
    befores = [before.kernel for _, before in matmul.before] if writer.operands else []
    tensors = (*operands, *tensors_of(kernel, befores), *writer.scratch)
    layouts = {f"ks_{side}_ptr": writer.layout(side, plan) for side in writer.read}
    sizes = (matmul.m, matmul.n, matmul.k, matmul.batch)
    symbols = set[str]().union(*(symbols_of(k) for k in (kernel, *befores)), *(p.names for p in sizes))
    numbers = [(name, name) for name in sorted(symbols)]
    numbers += _strides(matmul, layouts)
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    numbers += [("EVEN_K", f"({python_poly(writer.summed)}) % {writer.tiles.k} == 0")] if writer.operands else []
    fixed = names_fixed(kernel.dims[1:]) | matmul.n.names | _lasting(matmul, layouts)
    text = function_text(writer.name, tensors, numbers, fixed, body, f"{matmul.node.target} and what follows it")
    options: dict[str, str | int] = {"num_warps": writer.tiles.warps, "num_stages": writer.tiles.stages}
    launch = Launch(writer.name, writer.grid(), tensors, tuple(numbers), options, layouts)
    return TritonKernel(text, launch, tuple(store.buffer.name for store in kernel.stores.values()))


def _strides(matmul: Product, layouts: dict[str, Layout]) -> list[tuple[str, str]]:
    """Strides of the operands in memory, by parameter."""
    return [(name, python_poly(stride)) for name, stride in _by_parameter(matmul, layouts).items()]


def _by_parameter(matmul: Product, layouts: dict[str, Layout]) -> dict[str, Poly]:
    parameters: dict[str, Poly] = {}
    for side, letters in (("left", "mk"), ("right", "kn")):
        if f"ks_{side}_ptr" in layouts:
            strides = layouts[f"ks_{side}_ptr"].strides
            parameters |= {f"{side}_{letter}": strides[d] for letter, d in zip(letters, (-2, -1), strict=True)}
            parameters[f"{side}_b"] = strides[0] if matmul.batched else ZERO
    return parameters


def _lasting(matmul: Product, layouts: dict[str, Layout]) -> set[str]:
    """Strides that are compiled into a kernel, so that their divisors are known: those that rows do not change."""
    varies = (matmul.batch * matmul.m).names
    strides = _by_parameter(matmul, layouts)
    return {name for name, stride in strides.items() if name[-1] != "b" and not stride.names & varies}
