"""C++ drafts read nothing outside of their inputs: these end where memory does."""

import ctypes
import mmap
import subprocess
import sys
from pathlib import Path

import pytest


def guarded(value):
    """A tensor's numbers directly below a page that no process may read."""
    import torch

    size = value.numel() * value.element_size()
    readable = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(-1, readable + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + readable), mmap.PAGESIZE, 0):
        raise OSError("mprotect failed")
    copy = torch.frombuffer(area, dtype=value.dtype, count=value.numel(), offset=readable - size)
    return copy.reshape(value.shape).copy_(value)


def joined(a, b, c, y):
    import torch

    wide = [part.expand(-1, y.shape[0]) for part in (a, b, c)]
    return (torch.cat(wide).exp() * y).amax(0)


def padded(a, b, c, y):
    import torch.nn.functional as F

    wide = [F.pad(part.expand(-1, y.shape[0]), (0, 0, 2, c.shape[0] - part.shape[0] - 1)) for part in (a, b)]
    return (wide[0].sigmoid() * wide[1].exp() * y).sum(0)


def rolled(a, b, c, y):
    import torch

    parts = [part.expand(-1, y.shape[0]).roll((step, -step), (0, 1)) for step, part in enumerate((a, b, c))]
    return (torch.cat(parts) * y).sum(0)


def main(folder):
    """Run as a script: what reads out of bounds ends the process."""
    import torch
    from compared import Pair

    wide = [torch.rand(3000, 1), torch.rand(40)]
    for function in (joined, padded, rolled):
        inputs = [[guarded(x) for x in (torch.rand(rows, 1), torch.rand(5, 1), *wide)] for rows in (3, 7)]
        pair = Pair(function, inputs[0], "cpp", Path(folder) / f"{function.__name__}.py")
        pair.file._aten = None
        for arguments in inputs:
            torch.testing.assert_close(pair.kernel(*arguments), function(*arguments), rtol=1e-4, atol=1e-5)


def test_parts_of_a_column_are_read_only_where_they_are_taken(tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, __file__, tmp_path], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]


if __name__ == "__main__":
    main(*sys.argv[1:])
