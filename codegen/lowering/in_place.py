"""Which memory a kernel may overwrite with its result: results of PyTorch, and inputs that the operator writes."""

from ...schemas import Ref
from ..ir.loops import Kernel, buffers_read
from ..ir.poly import Poly
from ..ir.scalar import Scalar, walk_all
from .library_convolutions import CONVOLUTION_LAST
from .plan import Plan
from .pointwise import base_name

_FRESH = {"mm", "bmm", "addmm", "baddbmm", "convolution", "mv", "matmul", "linear"}
"""Operators whose result nobody else holds."""


def overwritten(plan: Plan, kernel: Kernel) -> dict[str, str]:
    """Stored nodes that may take the memory of an operator's result, or of an input whose new value they are, by name.

    The kernel must be the last to look at it, and must read no element of it but the one it writes, in the last pass.
    """
    sources: dict[str, str] = {}
    output = plan.graph.nodes[-1]
    written, returned = output.kwargs, plan.returned
    for source in dict.fromkeys((*buffers_read(kernel.roots()), *written)):
        node = plan.nodes[source]
        is_fresh = node.op == "call" and (base_name(node.target) in _FRESH or node.target == CONVOLUTION_LAST)
        if not (is_fresh or source in written) or source in sources.values() or not plan.is_only_user(kernel, source):
            continue
        offsets = _places(kernel.roots(), source)
        for store in kernel.stores.values():
            name = store.buffer.name
            same = (
                plan.nodes[name].values[0].shape == node.values[0].shape and store.buffer.dtype == node.values[0].dtype
            )
            last = all(kernel.pass_of(store.value) >= kernel.pass_of(root) for root in kernel.roots())
            is_new_value = is_fresh or (written[source] == Ref(name=name) and name not in returned)
            fits = is_new_value and store.level == "element" and offsets <= {store.offset}
            if same and last and fits and name not in sources:
                sources[name] = source
                break
    return sources


def renewed(plan: Plan, kernel: Kernel) -> dict[str, str]:
    """Stored nodes that may take the memory of the input whose new value they are, by name: of running statistics.

    The kernel alone reads the input, for this store alone, and of it only the element that it writes. Nor is the same
    value stored elsewhere: threads that hold it twice may read it again after another thread's store.
    """
    sources: dict[str, str] = {}
    for source, value in plan.graph.nodes[-1].kwargs.items():
        store = kernel.stores.get(value.name) if isinstance(value, Ref) else None
        if store is None or store.buffer.name in plan.returned or store.buffer.name in sources:
            continue
        old, new = plan.nodes[source].values[0], plan.nodes[store.buffer.name].values[0]
        readers = [root for root in kernel.roots() if source in buffers_read([root])]
        offsets = _places(readers, source)
        fits = (old.shape, old.dtype) == (new.shape, store.buffer.dtype) and offsets <= {store.offset}
        once = len(readers) <= 1 and all(root is store.value for root in readers)
        if fits and once and plan.is_only_user(kernel, source):
            sources[store.buffer.name] = source
    return sources


def _places(roots: list[Scalar], source: str) -> set[Poly | None]:
    """Where expressions read a buffer; None stands for any place, as where they search it."""
    return {node.polys[0] if node.op == "load" else None for node in walk_all(roots) if _reads(node, source)}


def _reads(node: Scalar, source: str) -> bool:
    return (node.op in ("load", "search") and node.data[0] == source) or (node.op == "segment" and node.data == source)
