"""Reductions in Triton: neutral elements, combining two values, folding a tile."""

from ..ir.build import is_float
from ..ir.loops import Accumulation
from .text import TYPES, TritonNeeds

_BITS = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}
_COMBINE = {"sum": "ks_add", "prod": "ks_mul", "max": "ks_max", "min": "ks_min", "any": "ks_max", "all": "ks_min",
            "argmax": "ks_argmax", "argmin": "ks_argmin"}  # fmt: skip


def held(a: Accumulation) -> str:
    """dtype in which values are held while they are accumulated."""
    return "int32" if a.dtype == "bool" else a.dtype


def neutral(a: Accumulation) -> str:
    """The neutral element as a Triton scalar."""
    return f"tl.full((), {_neutral_number(a)}, {TYPES[held(a)]})"


def _neutral_number(a: Accumulation) -> str:
    if a.op in ("sum", "any"):
        return "0"
    if a.op in ("prod", "all"):
        return "1"
    low = a.op in ("max", "argmax")
    dtype = held(a)
    if is_float(dtype):
        return f'float("{"-" if low else ""}inf")'
    if a.dtype == "bool":
        return "0" if low else "1"
    if dtype == "uint8":
        return "0" if low else "255"
    return str(-(2 ** _BITS[dtype]) if low else 2 ** _BITS[dtype] - 1)


def is_position(a: Accumulation) -> bool:
    """Whether the result is where the extreme is."""
    return a.op.startswith("arg")


def combine(a: Accumulation, old: str, new: str, needs: TritonNeeds) -> str:
    """Two tiles of accumulated values as one."""
    if a.op == "sum":
        return f"{old} + {new}"
    if a.op == "prod":
        return f"{old} * {new}"
    name = needs.helper(_COMBINE[a.op]) if is_float(held(a)) else ""
    if name:
        return f"{name}({old}, {new})"
    return f"tl.{'maximum' if a.op in ('max', 'any') else 'minimum'}({old}, {new})"


def fold(a: Accumulation, tile: str, axis: int, keep: bool, needs: TritonNeeds) -> str:
    """One value for every row of a tile."""
    keep_dims = ", keep_dims=True" if keep else ""
    if a.op == "sum":
        return f"tl.sum({tile}, {axis}{keep_dims})"
    if a.op in ("max", "any", "min", "all") and not is_float(held(a)):
        return f"tl.{'max' if a.op in ('max', 'any') else 'min'}({tile}, {axis}{keep_dims})"
    return f"tl.reduce({tile}, {axis}, {needs.helper(_COMBINE[a.op])}{keep_dims})"
