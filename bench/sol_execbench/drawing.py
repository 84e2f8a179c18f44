"""How a random input is drawn, as an expression of its source: what SOL-ExecBench draws for a name of this kind. Pure.

Tensors are normal, but for what would mean nothing so: weights of norms are 1, masks are masks, variances are positive,
weights of products are scaled so that activations keep their variance.
"""

import re
from collections.abc import Callable, Sequence

from ...schemas import ProblemError
from .definition import Value

NORMAL = ("float64", "float32", "float16", "bfloat16")
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
INTEGERS = {"int8": 128, "int16": 1024, "int32": 1024, "int64": 1024}
"""Integers are drawn from minus this number on, below it."""

_NUMBERED = re.compile(r"\d+$")


def drawn(name: str, value: Value) -> str:
    """An expression for input ``name``; its axes and ``generator`` are at hand.

    Raises:
        ProblemError: tensors of its dtype cannot be drawn.
    """
    if value.shape is None:
        return drawn(name, Value(shape=(), dtype=value.dtype)) + ".item()"
    sizes = _tuple(value.shape)
    dtype = f"torch.{value.dtype}"
    if value.dtype in NORMAL:
        special = next((make for matches, make in _KINDS if matches(_NUMBERED.sub("", name), value)), _normal)
        return special(sizes, dtype)
    if value.dtype in EIGHT_BITS:
        return f"{_random('randn', sizes)}.clamp_(-2, 2).to({dtype})"
    if value.dtype == "bool":
        return f"torch.randint(0, 2, {sizes}, generator=generator).bool()"
    if value.dtype in INTEGERS:
        most = INTEGERS[value.dtype]
        return f"torch.randint({-most}, {most}, {sizes}, generator=generator, dtype={dtype})"
    raise ProblemError(f"input {name} is of {value.dtype}, which neither a processor nor a Hopper GPU computes with")


def _tuple(parts: Sequence[str | int]) -> str:
    return f"({', '.join(map(str, parts))}{',' if len(parts) == 1 else ''})"


def _random(function: str, sizes: str) -> str:
    return f"torch.{function}({sizes}, generator=generator)"


def _normal(sizes: str, dtype: str) -> str:
    return f"torch.randn({sizes}, generator=generator, dtype={dtype})"


def _scaled(sizes: str, dtype: str) -> str:
    fan_in = sizes.strip("(),").rpartition(", ")[2]
    return f"{_normal(sizes, dtype)} / {fan_in}**0.5"


def _causal(sizes: str, dtype: str) -> str:
    return f"torch.full({sizes}, torch.finfo({dtype}).min, dtype={dtype}).triu(1)"


def _uniform(low: float, high: float) -> Callable[[str, str], str]:
    return lambda sizes, dtype: f"{_random('rand', sizes)}.mul_({high - low:g}).add_({low:g}).to({dtype})"


def _described(value: Value, *words: str) -> bool:
    return all(word in (value.description or "").lower() for word in words)


def _is_square(value: Value) -> bool:
    return value.shape is not None and len(value.shape) > 1 and value.shape[-1] == value.shape[-2]


def _is_norms(part: str) -> Callable[[str, Value], bool]:
    return lambda name, value: bool(re.fullmatch(rf"(.*_)?(layer)?norm\d*_{part}", name))


def _is_causal(name: str, value: Value) -> bool:
    asked = name in ("attention_mask", "causal_mask") or _described(value, "attention mask", "causal")
    return _is_square(value) and asked


def _is_mask(name: str, value: Value) -> bool:
    return name in ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask") or (
        name.endswith("_mask") and bool(re.search(r"binary|0 or 1|\{0, 1\}", (value.description or "").lower()))
    )


def _is_positive(name: str, value: Value) -> bool:
    return bool(re.fullmatch(r"(.*_)?(rstd|std|variance|var)", name))


def _is_share(name: str, value: Value) -> bool:
    return name in ("attn_weights", "attention_weights", "routing_weights") or _described(value, "softmax", "output")


def _is_weight(name: str, value: Value) -> bool:
    return len(value.shape or ()) > 1 and bool(re.fullmatch(r"weight|.*_(weights?|projs?)(_weights?|_matrix)?", name))


_KINDS: tuple[tuple[Callable[[str, Value], bool], Callable[[str, str], str]], ...] = (
    (_is_norms("weight"), lambda sizes, dtype: f"torch.ones({sizes}, dtype={dtype})"),
    (_is_norms("bias"), lambda sizes, dtype: f"torch.zeros({sizes}, dtype={dtype})"),
    (_is_causal, _causal),
    (_is_mask, lambda sizes, dtype: f"torch.randint(0, 2, {sizes}, generator=generator).to({dtype})"),
    (
        lambda name, _: bool(re.fullmatch(r"(rope_)?cos(_cached)?", name)),
        lambda s, d: f"{_random('randn', s)}.cos().to({d})",
    ),
    (
        lambda name, _: bool(re.fullmatch(r"(rope_)?sin(_cached)?", name)),
        lambda s, d: f"{_random('randn', s)}.sin().to({d})",
    ),
    (_is_positive, lambda sizes, dtype: f"{_normal(sizes, dtype)}.abs() + 0.1"),
    (lambda name, _: name == "A_cumsum", lambda s, d: f"{_random('rand', s)}.mul_(-0.1).cumsum(-1).to({d})"),
    (lambda name, _: name == "A_log", _uniform(-5, -1)),
    (lambda name, _: name == "A", _uniform(-1, -0.001)),
    (lambda name, _: name == "g", _uniform(-5, 0)),
    (_is_share, lambda sizes, dtype: f"{_random('randn', sizes)}.softmax(-1).to({dtype})"),
    (_is_weight, _scaled),
)
"""What an input is by its name or description, and how such a one is drawn; the first that fits."""
