"""Products as kernels of the library: parameters, strides and launches."""

from ....schemas import Node
from .loops import buffers_read
from .printing import python_poly
from .regions import Plan
from .triton_launch import Launch, TritonKernel, symbols_in
from .triton_product_text import ProductWriter
from .triton_products import Product
from .triton_prologue import reads_of
from .triton_scope import pname
from .views import shape_of


def product_kernel(writer: ProductWriter, plan: Plan) -> TritonKernel:
    """The kernel that ``writer`` writes."""
    from .triton import function_text, names_fixed, symbols_of

    one, needs = writer.one, writer.scope.needs
    needs.floats = {}
    body = writer.lines()
    kernel, dtype = writer.kernel, one.node.values[0].dtype
    operands = tuple((f"ks_{side}_ptr", getattr(one, side), dtype) for side in writer.read)
    befores = [before for _, before in one.before] if writer.operands else []
    reads = {**reads_of(befores), **buffers_read(kernel.roots())}
    stored = [store.buffer for store in kernel.stores.values()]
    tensors = (
        *operands,
        *((f"{pname(n)}_ptr", n, t) for n, t in reads.items()),
        *((f"{pname(buffer.name)}_out", buffer.name, buffer.dtype) for buffer in stored),
        *writer.scratch,
    )
    strides, examples = _strides(one, writer.read, plan)
    kernels = [kernel, *(before.kernel for before in befores)]
    sizes = (one.m, one.n, one.k, one.batch)
    symbols = set[str]().union(*(symbols_of(k) for k in kernels), *(p.names for p in sizes))
    numbers = [(name, name) for name in sorted(symbols)]
    numbers += strides
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    numbers += [("EVEN_K", f"({python_poly(one.k)}) % {writer.tiles.k} == 0")] if writer.operands else []
    fixed = names_fixed(kernel.dims[1:]) | one.n.names | _lasting(one, examples)
    text = function_text(writer.name, tensors, numbers, fixed, body, f"{one.node.target} and what follows it")
    options: dict[str, str | int] = {"num_warps": writer.tiles.warps, "num_stages": writer.tiles.stages}
    views = {parameter: name for parameter, name, _ in operands}
    launch = Launch(writer.name, writer.grid(), tensors, tuple(numbers), options, views, examples)
    return TritonKernel(text, launch, tuple(buffer.name for buffer in stored))


def _strides(one: Product, sides: tuple[str, ...], plan: Plan) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """How the glue reads the operands' strides, and what they are at the main shape."""
    found: list[tuple[str, str]] = []
    examples: dict[str, str] = {}
    for side in sides:
        outer, inner = "mk" if side == "left" else "kn"
        given = example_strides(plan.nodes[getattr(one, side)])
        for letter, dim in ((outer, -2), (inner, -1), ("b", 0)):
            parameter = f"{side}_{letter}"
            if letter == "b" and not one.batched:
                found.append((parameter, "0"))
                continue
            found.append((parameter, f"{{ks_{side}_ptr}}.stride({dim})"))
            examples[parameter] = given[dim]
    return found, examples


def _lasting(one: Product, examples: dict[str, str]) -> set[str]:
    """Strides that are compiled into a kernel, so that their divisors are known: those that rows do not change."""
    varies = (one.batch * one.m).names
    return {name for name, text in examples.items() if name[-1] != "b" and not symbols_in(text) & varies}


def example_strides(node: Node) -> list[str]:
    """Strides of a value at the main shape, as expressions over the sizes."""
    meta = node.values[0]
    if meta.strides:
        return [str(stride) for stride in meta.strides]
    texts: list[str] = []
    below = "1"
    for size in reversed(shape_of(node)):
        texts.insert(0, below)
        below = f"{below} * ({python_poly(size)})"
    return texts
