"""Small tensors of a ``safetensors`` file as Python text: a problem's text travels, data files do not."""

import base64
import json
import math
import struct
import zlib
from pathlib import Path

from ...schemas import ProblemError

DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}

MOST_BYTES = 1 << 18
"""Of one problem's tensors, compressed."""


def tensor_text(path: Path, key: str) -> str:
    """An expression that makes tensor ``key`` of the file at ``path``.

    Raises:
        ProblemError: it cannot be read, is no such file, or has no such tensor.
    """
    dtype, shape, data = _read(path, key)
    text = base64.b85encode(zlib.compress(data, 9)).decode()
    if not data:
        return f"torch.empty({shape}, dtype=torch.{dtype})"
    return f"_tensor({text!r}, torch.{dtype}, {shape})"


DECODER = """
def _tensor(text, dtype, shape):
    return torch.frombuffer(bytearray(zlib.decompress(base64.b85decode(text))), dtype=dtype).reshape(shape)
"""
"""What the expressions call; needs base64, torch and zlib."""


def _read(path: Path, key: str) -> tuple[str, tuple[int, ...], bytes]:
    try:
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(length))
            entry = header[key]
            begin, end = entry["data_offsets"]
            if end - begin > 64 * MOST_BYTES:
                raise ProblemError(f"tensor {key} of {path.name} has {end - begin} bytes: too large for a problem file")
            file.seek(8 + length + begin)
            data = file.read(end - begin)
        shape = tuple(int(size) for size in entry["shape"])
        dtype = DTYPES[entry["dtype"]]
    except OSError as error:
        raise ProblemError(f"cannot read {path.name}: {error.strerror}") from error
    except (KeyError, ValueError, TypeError, struct.error, OverflowError, MemoryError) as error:
        raise ProblemError(f"{path.name} is no safetensors file with a tensor {key!r}: {error!r}") from error
    if len(data) != end - begin or (data and len(data) % max(1, math.prod(shape))):
        raise ProblemError(f"{path.name} ends inside tensor {key!r}; download it again")
    return dtype, shape, data
