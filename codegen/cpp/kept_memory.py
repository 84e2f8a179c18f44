"""Reuses the memory of large outputs that were freed, for the outputs of later calls (decision 0031)."""

import math

from ...hardware.machine.work import dtype_bytes
from ...schemas import TensorMeta

MAPPED_BYTES = 32 << 20
"""From here on glibc maps memory anew at each call, and all of its pages are faulted in: the largest threshold that it
sets itself."""
LARGEST_KEPT = 512 << 20
"""What is larger is mapped anew all the same: several files of a model, each with two such outputs, fill a machine."""

IMPORTS = ("sys", "threading")
"""Modules that :func:`text` needs."""

_TEXT = '''
_KEPT = [object()]  # Memory of large outputs: of two calls, since a result is often held until the next one is there.
_KEEPING = threading.Lock()


def _empty(shape, dtype):
    """As torch.empty. What is large takes memory of an earlier output that nobody holds: fresh memory is faulted in."""
    wanted = math.prod(shape) * dtype.itemsize
    holders = getattr(torch._C, "_storage_Use_Count", None)
    # Nobody waits: a thread that has the lock may be gone (after a fork), or be this one (in a signal's handler).
    if not MAPPED_BYTES <= wanted <= LARGEST_KEPT or holders is None or not _KEEPING.acquire(blocking=False):
        return torch.empty(shape, dtype=dtype)
    try:
        # The list alone holds its first item, so all that it alone holds are counted as that one: how Python counts
        # the list, a loop and a call differs between its versions.
        counts = [sys.getrefcount(item) for item in _KEPT]
        for storage, count in zip(_KEPT[1:], counts[1:]):
            is_free = count == counts[0] and holders(storage._cdata) == 1 and not storage.is_shared()
            if is_free and storage.nbytes() == wanted:
                return torch.empty(0, dtype=dtype).set_(storage, 0, shape)
        out = torch.empty(shape, dtype=dtype)
        _KEPT.append(out.untyped_storage())
        del _KEPT[1:-MOST]
    finally:
        _KEEPING.release()
    return out
'''


def is_mapped(meta: TensorMeta) -> bool:
    """Whether a tensor, at the captured sizes, would get fresh memory at each call, and is kept instead."""
    size = math.prod(meta.example) * dtype_bytes(meta.dtype) if meta.example else 0
    return MAPPED_BYTES <= size <= LARGEST_KEPT


def text(outputs: int) -> list[str]:
    """Lines that define ``_empty``, for calls that make so many large tensors."""
    numbers = {"MAPPED_BYTES": MAPPED_BYTES, "LARGEST_KEPT": LARGEST_KEPT, "MOST": 2 * outputs}
    printed = _TEXT
    for name, number in numbers.items():
        printed = printed.replace(name, f"{number:_}")
    return printed.splitlines()
