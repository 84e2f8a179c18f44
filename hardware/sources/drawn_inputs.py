"""Inputs of a traced call: the text that draws others like them, and copies that lie in memory as they do.

A trace holds sizes as numbers: those that depend on values are other numbers for other values.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...schemas import ProblemError

_DRAWN = re.compile(r"torch\.(bool|u?int(8|16|32|64)|b?float(16|32|64)|float8_\w+|complex(32|64|128))")
"""Types of which numbers can be drawn. Those of less than a byte, and of quantized numbers, have no arithmetic."""
_LEAST = -(2**63)
_MOST = 2**40
"""Above the range of numbers that are drawn column by column: none is drawn more often than others then."""
_COLUMNS = 64
"""Columns whose ranges are told apart, at most: each stands in the text."""
_UNLIKELY = 1e-4
"""That numbers of one range have columns with ranges of their own."""
_SORTED = 8
"""Numbers of several rows that are all in order by chance in less than one of five hundred draws."""
_LARGEST_MATRIX = 2048
_EXTREMES = 4
"""Values beyond a quarter of their type's range, infinities among them, that are drawn as themselves."""


def copied(value: Any, device: Any = None) -> Any:
    """A copy of a tensor that lies in memory as it does, on ``device`` if one is given; gaps are copied as well."""
    if is_dense(value):
        return value.to(device, copy=True)
    return value.as_strided((_extent(value),), (1,)).to(device, copy=True).as_strided(value.shape, value.stride())


def is_dense(value: Any) -> bool:
    """Whether a tensor is no view that was expanded, transposed or cut out of another."""
    import torch

    return value.layout is not torch.strided or value.is_contiguous()


def _extent(value: Any) -> int:
    """Elements from a tensor's first one to its last one in memory."""
    last: int = sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    return last + 1


def identifier(text: str) -> str:
    """The name of a value in the problem's text."""
    name = re.sub(r"\W", "_", text) or "operator"
    return f"p_{name}" if name[0].isdigit() else name


def inputs_text(tensors: Mapping[str, Any], positions: Mapping[str, int] | None = None) -> str:
    """A problem's ``inputs``, which draws tensors like these; those of one integer in ``positions`` below a bound.

    Raises:
        ProblemError: PyTorch draws none of the type of one.
    """
    bounds = positions or {}
    lines = [drawn_line(label, value, below=bounds.get(label, 0)) for label, value in tensors.items()]
    return "\ndef inputs(generator):\n    return [\n" + "\n".join(lines) + "\n    ]\n"


def drawn_line(label: str, value: Any, sizes: str = "", *, below: int = 0) -> str:
    """The line of a problem's ``inputs`` that draws a tensor like ``value``, or with ``sizes`` instead of its own.

    ``below``: of a position, the size that it indexes.

    Raises:
        ProblemError: PyTorch draws none of its type.
    """
    if not _DRAWN.fullmatch(str(value.dtype)):
        raise ProblemError(
            f"input {label!r} is of {value.dtype}, and PyTorch draws no numbers of that type: convert it before "
            "the call, or write a problem file, whose `inputs()` gives the values (docs/problems.md)"
        )
    if below:
        drawn = f"torch.randint(0, {below}, (), generator=generator, dtype={value.dtype})"
        return f"        {drawn},  # {identifier(label)}"
    return f"        {_drawn(value, sizes)},  # {identifier(label)}"


def _drawn(value: Any, sizes: str) -> str:
    """A torch expression that draws a tensor like ``value``; of ``sizes``, if given, where it has no gaps."""
    import torch

    value = value.detach()
    shape, laid_out = tuple(value.shape), ""
    if not is_dense(value):
        # The kernel is judged, timed and called as the operator is: with what was expanded, transposed or cut out.
        shape = (_extent(value),)
        laid_out = f".as_strided({tuple(value.shape)}, {value.stride()})"
    text = sizes or str(shape)
    if value.dtype is torch.bool:
        share = float(value.float().mean()) if value.numel() else 0.5
        drawn = f"torch.rand({text}, generator=generator) < {share:.4f}"
        return f"({drawn}){laid_out}" if laid_out else drawn
    if value.is_complex():
        # What is conjugated only when it is read has no parts to look at.
        parts = value.resolve_conj().to(torch.promote_types(value.dtype, torch.complex64))
        drawn = f"torch.complex({_floats(parts.real, shape, text)}, {_floats(parts.imag, shape, text)})"
        return f"{drawn}{'' if parts.dtype is value.dtype else f'.to({value.dtype})'}{laid_out}"
    if value.dtype in (torch.float32, torch.float64) and not (laid_out or sizes) and _is_positive_definite(value):
        scale = float(value.diagonal(dim1=-2, dim2=-1).double().mean())
        factor = f"torch.randn({text}, generator=generator, dtype={value.dtype})"
        eye = f"torch.eye({shape[-1]}, dtype={value.dtype})"
        return f"((half := {factor}) @ half.mT * {scale / shape[-1] / 2:.6g} + {eye} * {scale / 2:.6g}){laid_out}"
    if value.dtype.is_floating_point:
        drawn = _floats(value, shape, text)
        sort = f".float().sort().values.to({value.dtype})" if value.dtype.itemsize == 1 else ".sort().values"
        return f"{drawn}{sort if _ascends(value.double()) else ''}{laid_out}"
    if not laid_out and _is_permutation(value) and not _ascends(value.long()):
        return f"torch.randperm({text}[0], generator=generator).to({value.dtype})"
    return f"{_integers(value, text)}{laid_out}"


def _ascends(numbers: Any) -> bool:
    """Whether numbers are sorted along the last dimension, so many that it is no chance."""
    if not numbers.ndim or numbers.shape[-1] < 3 or (numbers.ndim > 1 and numbers.numel() < _SORTED):
        return False
    return bool((numbers[..., 1:] >= numbers[..., :-1]).all())


def _is_permutation(numbers: Any) -> bool:
    """Whether they are 0, 1, 2, … in some order, each once, and so many that it is no chance."""
    count = numbers.numel()
    return bool(numbers.ndim == 1 and count >= _SORTED and numbers.long().sort().values.tolist() == list(range(count)))


def _is_positive_definite(numbers: Any) -> bool:
    """Whether the matrices are symmetric and positive definite, as those that a Cholesky factorization takes."""
    import torch

    size = numbers.shape[-1] if numbers.ndim > 1 else 0
    if not 1 < size <= _LARGEST_MATRIX or numbers.shape[-2] != size or not torch.equal(numbers, numbers.mT):
        return False
    if torch.equal(numbers, numbers.diagonal(dim1=-2, dim2=-1).diag_embed()):
        return False
    return not bool(torch.linalg.cholesky_ex(numbers.double()).info.any())


def _integers(value: Any, shape: str) -> str:
    """Integers of the range of ``value``. The generator draws signed ones, below the largest of 64 bits."""
    import torch

    is_signed = value.dtype not in (torch.uint16, torch.uint32, torch.uint64)
    is_widest = value.dtype is torch.uint64
    # As signed ones that are in the same order.
    numbers = value if is_signed else value.view(torch.int64) ^ _LEAST if is_widest else value.long()
    low, high = (numbers.min().item(), numbers.max().item()) if value.numel() else (0, 1)
    dtype = value.dtype if is_signed else torch.int64
    is_ordered = _ascends(numbers)
    if not is_widest and (bounds := _column_bounds(numbers, low, high, shape)):
        lows, spans = bounds
        drawn = f"torch.randint(0, {_MOST}, {shape}, generator=generator).remainder({spans}).add({lows})"
        return f"{drawn}{'.sort().values' * is_ordered}.to({value.dtype})"
    if low == high == -_LEAST - 1:
        drawn = f"torch.full({shape}, {high}, dtype={dtype})"
    else:
        marker, share = _marker(numbers) if is_signed and high < _MOST else (None, 0.0)
        least = low if marker is None else numbers[numbers >= 0].min().item()
        drawn = f"torch.randint({least}, {min(high + 1, -_LEAST - 1)}, {shape}, generator=generator, dtype={dtype})"
        if marker is not None:
            drawn = f"torch.where(torch.rand({shape}, generator=generator) < {share:.4f}, {marker}, {drawn})"
    if is_ordered:
        drawn += ".sort().values"
        if low == 0 and is_signed and numbers.ndim == 1:
            # Where bags, sequences or rows begin: from the first element on, and to the end.
            begun = f"torch.nn.functional.pad({drawn}[1:-1], (1, 0))"
            drawn = f"torch.nn.functional.pad({begun}, (0, 1), value={high})"
    if is_signed:
        return drawn
    return f"({drawn} ^ {_LEAST}).view({value.dtype})" if is_widest else f"{drawn}.to({value.dtype})"


def _marker(numbers: Any) -> tuple[int | None, float]:
    """The only negative number, as -100 marks labels to be ignored, and its share; None where there is none or more."""
    negative = numbers[numbers < 0]
    if not negative.numel() or negative.numel() == numbers.numel() or bool((negative != negative[0]).any()):
        return None, 0.0
    return int(negative[0]), negative.numel() / numbers.numel()


def _column_bounds(numbers: Any, low: int, high: int, shape: str) -> tuple[str, str] | None:
    """Least numbers and counts of them for each column, or each row, where these have ranges of their own.

    As indices of several tables in one tensor, or the ends of edges between two kinds of nodes. None where one range
    for all explains the numbers.
    """
    import torch

    sizes = shape.strip("(),").split(", ")
    if numbers.ndim < 2 or len(sizes) != numbers.ndim or not numbers.numel() or high - low >= _MOST:
        return None
    likeliness, bounds = _UNLIKELY, None
    for axis in (-1, 0):
        count = numbers.shape[axis]
        # Of a size that is a name in the text nobody knows how many there are.
        if not 2 <= count <= _COLUMNS or sizes[axis] != str(count):
            continue
        columns = numbers.movedim(axis, 0).reshape(count, -1).long()
        lows, highs = columns.amin(1), columns.amax(1)
        # How likely so narrow a range is if the numbers are drawn from all of it.
        narrowest = float(torch.minimum(high - lows, highs - low).min() + 1) / (high - low + 1)
        likely = count * narrowest ** columns.shape[1]
        # If all rows were the same, nothing would be drawn, and a kernel could have them in its text.
        if columns.shape[1] > 2 and likely < likeliness and bool((highs > lows).any()):
            view = f".view({', '.join(['-1', *['1'] * (numbers.ndim - 1)])})" if axis == 0 else ""
            rows = (lows.tolist(), (highs - lows + 1).tolist())
            likeliness, bounds = likely, (f"torch.tensor({rows[0]}){view}", f"torch.tensor({rows[1]}){view}")
    return bounds


def _floats(value: Any, shape: tuple[int, ...], text: str) -> str:
    """Numbers of the range, or of the mean and deviation, of ``value``, and infinities and NaN where it has them."""
    import torch

    # What an expanded tensor repeats is seen once.
    wide = value[tuple(slice(None) if step else 0 for step in value.stride())].double()
    # As masks have them: minus infinity, or the least number that there is.
    is_extreme = ~(wide.abs() <= torch.finfo(value.dtype).max / 4)
    drawn = f"{_spread(wide[~is_extreme], value.numel() > 0, text, value.dtype)}.to({value.dtype})"
    numbers = wide[is_extreme & ~wide.isnan()].unique().tolist()[:_EXTREMES]
    for extreme in (*numbers, *([math.nan] if bool(wide.isnan().any()) else [])):
        at = wide.isnan() if extreme != extreme else wide == extreme
        drawn = f'torch.where({_pattern(at, shape, text)}, float("{extreme!r}"), {drawn})'
    return drawn


def _spread(numbers: Any, has_numbers: bool, shape: str, dtype: Any) -> str:
    """Numbers of the range, or of the mean and deviation, of ``numbers``, none of them beyond ``dtype``."""
    import torch

    if has_numbers and not numbers.numel():
        return f"torch.zeros({shape})"
    low, high = (numbers.min().item(), numbers.max().item()) if has_numbers else (0, 1)
    # Single precision ends before some numbers of the double one.
    is_beyond = max(high - low, high, -low) > torch.finfo(torch.float32).max / 16
    drawing = f"{shape}, generator=generator" + (", dtype=torch.float64" if is_beyond else "")
    if has_numbers and low >= 0:
        return f"torch.rand({drawing}).mul({high - low!r}).add({low!r})"
    mean, std = float(numbers.mean()) if has_numbers else 0.0, float(numbers.std()) if numbers.numel() > 1 else 1.0
    # A number that lies beyond eight bits becomes infinite there, or NaN.
    ends = f".clamp({-torch.finfo(dtype).max}, {torch.finfo(dtype).max})" if dtype.itemsize == 1 else ""
    return f"torch.randn({drawing}).mul({std!r}).add({mean!r}){ends}"


def _pattern(at: Any, shape: tuple[int, ...], text: str) -> str:
    """Where a value stands: above or below a diagonal, as in causal masks, or as often as here."""
    import torch

    if at.ndim >= 2 and at.numel() == math.prod(shape) and at.is_contiguous():
        everywhere = torch.ones_like(at)
        first, last = (int(line.flatten(0, -2)[0].sum()) for line in (at[..., :1, :], at[..., -1:, :]))
        for cut, diagonal in (("triu", at.shape[-1] - first), ("tril", last - at.shape[-2])):
            if torch.equal(at, getattr(everywhere, cut)(diagonal)):
                flat = "" if tuple(at.shape) == shape else ".flatten()"
                own = text if tuple(at.shape) == shape else tuple(at.shape)
                return f"torch.ones({own}, dtype=torch.bool).{cut}({diagonal}){flat}"
    return f"torch.rand({text}, generator=generator) < {float(at.double().mean()):.4f}"


def redrawn(tensors: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Tensors drawn as the problem file draws them, where the given ones lie."""
    import torch

    names: dict[str, Any] = {"torch": torch}
    exec(inputs_text(tensors), names)
    drawn = names["inputs"](torch.Generator().manual_seed(seed))
    return {name: value.to(given.device) for (name, given), value in zip(tensors.items(), drawn, strict=True)}


def read_for_sizes(module: Any, names: Sequence[str]) -> list[str]:
    """Of the inputs, in ``names`` order the first arguments of a traced module, those whose values give a size."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"][: len(names)]
    waiting = [source for node in module.graph.nodes for source in _size_sources(node)]
    seen = set(waiting)
    while waiting:
        further = {*waiting.pop().all_input_nodes} - seen
        seen |= further
        waiting += further
    return [name for name, node in zip(names, placeholders, strict=False) if node in seen]


def _size_sources(node: Any) -> list[Any]:
    """What an operator reads to know how large its result is."""
    import torch

    tagged = torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
    if not tagged and node.target is not torch.ops.aten.where.default:
        return []
    if node.target not in (torch.ops.aten.index.Tensor, torch.ops.aten.masked_select.default):
        return list(node.all_input_nodes)
    read = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
    return [mask for mask in read if mask is not None and mask.meta["val"].dtype in (torch.bool, torch.uint8)]
