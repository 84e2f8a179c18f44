"""Products as kernels of the library: parameters, strides and launches."""

from ....schemas import Node
from .loops import buffers_read
from .printing import python_poly
from .regions import Plan
from .triton_knobs import GpuSettings
from .triton_launch import Launch, TritonKernel
from .triton_prepare import Sizes
from .triton_products import Product, ProductWriter, tiles_of
from .triton_scope import pname
from .triton_text import TritonNeeds
from .views import shape_of


def product_kernel(one: Product, plan: Plan, sizes: Sizes, settings: GpuSettings, needs: TritonNeeds) -> TritonKernel:
    """The kernel of one product."""
    from .triton import function_text, names_fixed, symbols_of

    needs.floats = {}
    tiles = tiles_of(one, sizes, settings)
    writer = ProductWriter(one, tiles, settings, needs)
    body = writer.lines()
    kernel = writer.kernel
    reads = {n: t for n, t in buffers_read(kernel.roots()).items() if n != one.node.name}
    dtype = one.node.values[0].dtype
    outputs = tuple(store.buffer.name for store in kernel.stores.values())
    tensors = (
        ("left_ptr", one.left, dtype),
        ("right_ptr", one.right, dtype),
        *((f"{pname(n)}_ptr", n, t) for n, t in reads.items()),
        *((f"{pname(s.buffer.name)}_out", s.buffer.name, s.buffer.dtype) for s in kernel.stores.values()),
    )
    symbols = symbols_of(kernel) | one.m.names | one.n.names | one.k.names
    strides, examples = _strides(one, plan)
    numbers = [(name, name) for name in sorted(symbols)]
    numbers += strides
    numbers += [(name, f"float({text})") for text, name in needs.floats.items()]
    numbers.append(("EVEN_K", f"({python_poly(one.k)}) % {tiles.k} == 0"))
    fixed = names_fixed(kernel.dims[1:]) | one.n.names
    text = function_text(kernel.name, tensors, numbers, fixed, body, f"{one.node.target} and what follows it")
    options: dict[str, str | int] = {"num_warps": tiles.warps, "num_stages": tiles.stages}
    launch = Launch(
        kernel.name,
        writer.grid(),
        tensors,
        tuple(numbers),
        options,
        views={"left_ptr": one.left, "right_ptr": one.right},
        examples=examples,
    )
    return TritonKernel(text, launch, outputs)


def _strides(one: Product, plan: Plan) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """How the glue reads the operands' strides, and what they are at the main shape."""
    found: list[tuple[str, str]] = []
    examples: dict[str, str] = {}
    for side, name, (outer, inner) in (("left", one.left, "mk"), ("right", one.right, "kn")):
        given = example_strides(plan.nodes[name])
        for letter, dim in ((outer, -2), (inner, -1), ("b", 0)):
            parameter = f"{side}_{letter}"
            if letter == "b" and not one.batched:
                found.append((parameter, "0"))
                continue
            found.append((parameter, f"{{{side}_ptr}}.stride({dim})"))
            examples[parameter] = given[dim]
    return found, examples


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
