"""Proves from its expression alone that an index lies inside a dimension."""

from .poly import Poly, poly
from .scalar import Scalar


def surely_inside(value: Scalar, extent: Poly) -> bool:
    """Whether ``0 <= value < extent`` for every input; sizes are at least 1 wherever generated code runs."""
    return not_negative(value) and below(value, extent)


def not_negative(value: Scalar) -> bool:
    """Whether ``value >= 0`` surely."""
    match value.op:
        case "const":
            return bool(value.data >= 0)
        case "search" | "segment":
            return True
        case "index":
            return _at_least_zero(value.polys[0])
        case "minimum" | "add" | "mul":
            return all(not_negative(arg) for arg in value.args)
        case "maximum":
            return any(not_negative(arg) for arg in value.args)
        case "cast":
            return value.args[0].dtype in ("int64", "int32", "bool") and not_negative(value.args[0])
    return False


def below(value: Scalar, extent: Poly) -> bool:
    """Whether ``value < extent`` surely."""
    match value.op:
        case "const":
            gap = extent - int(value.data) - 1
            return gap.constant is not None and gap.constant >= 0
        case "index":
            gap = extent - value.polys[0] - 1
            return gap.constant is not None and gap.constant >= 0
        case "segment":
            return value.polys[1] - 1 == extent
        case "minimum":
            return any(below(arg, extent) for arg in value.args)
        case "maximum":
            return all(below(arg, extent) for arg in value.args)
        case "cast":
            return below(value.args[0], extent)
    return False


def _at_least_zero(p: Poly) -> bool:
    """A number, or ``size - 1``: sizes are at least 1."""
    if p.constant is not None:
        return p.constant >= 0
    rest = p + poly(1)
    return rest.is_name or p.is_name
