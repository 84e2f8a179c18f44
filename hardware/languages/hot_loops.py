"""A compiled kernel's text within a number of characters: its innermost loops first, the busiest of them before others.

Reads what ``objdump``, ``cuobjdump -sass``, PTX and AMD's assembler print. A loop is a jump back and all that lies in
between; how busy it is follows from its vector and matrix instructions. Nothing was measured: counters say what is hot.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

CHARACTERS = 12_000
"""Most of one excerpt."""
_LOOP_LINES = 160
"""Most of one loop that is shown."""
_LEAST_ROOM = 400
"""Characters below which nothing more is begun."""

_HEADER = re.compile(
    r"^[0-9a-f]+ <(?P<objdump>.+)>:$|^\s*Function : (?P<sass>\S+)|^\s*(?:\.visible |\.weak )?\.(?:entry|func)\b"
    r"[^(]*?(?P<ptx>[\w$]+)\s*\(|^(?P<amd>[A-Za-z_][\w.$]*):\s*; @"
)
_ADDRESS = re.compile(r"^\s*(?:/\*(?P<sass>[0-9a-f]{4,})\*/|(?P<objdump>[0-9a-f]+):)\s")
_LABEL = re.compile(r"^(?P<label>[$.][\w$.]+):")
_JUMP = re.compile(
    r"\b(?:j[a-z]{1,4}|loop|b(?:\.[a-z]{2})?|cbn?z|tbn?z)\s+(?:[^#]*,\s*)?(?:0x)?(?P<objdump>[0-9a-f]+)\s+<"
    r"|\bBRA\b[^;]*?0x(?P<sass>[0-9a-f]+)|\bbra(?:\.uni)?\s+(?P<ptx>[$\w]+);"
    r"|\bs_c?branch\w*\s+(?P<amd>\.[\w.$]+)"
)
_CALL = re.compile(r"\bcall|\bbl\s")
_ENCODING = re.compile(r"\s*/\* 0x[0-9a-f]+ \*/\s*$")
_BLANKS = re.compile(r"[ \t]{2,}|\t")
_NOISE = re.compile(
    r"^\s*(?:/\*[0-9a-f]+\*/|[0-9a-f]+:)\s+(?:cs )?(?i:nop)|^\s*\.{4}|^\s*\.(?:loc|file|headerflags|reg|param)\b|^\s*(?://|;)|^\s*$"
)
_RUNTIME = re.compile(
    r"@plt|^\.plt|^_(?:init|fini)$|^(?:de)?register_tm_clones$|^__do_global_dtors_aux$|^frame_dummy$|^_start$"
)
"""Functions that every shared library has."""

_WEIGHTS = (
    (re.compile(r"\b(?:[HIDQ]G?MMA|wgmma|mma\.sync|v_mfma\w*|tdp\w+)\b"), 64),
    (re.compile(r"%zmm"), 16),
    (re.compile(r"%ymm|\bz\d+\.[bhsd]"), 8),
    (re.compile(r"\b\w+[ps]?p[sdh]\b.*%xmm|\bv\d+\.\d"), 4),
    (re.compile(r"\b(?:LDG|STG|LDS|STS)\S*\.128|\.v4\.|_dwordx4"), 4),
    (re.compile(r"\b(?:[FDH](?:FMA|ADD|MUL)2?|MUFU|fma|mul|add|ex2|rsqrt)\S*f?(?:16|32|64)?\b.*[;,]"), 2),
    (re.compile(r"%xmm"), 1),
)
"""What an instruction adds to how busy its loop is: the first that fits."""


@dataclass
class Function:
    """One function's lines, and its loops."""

    name: str
    lines: list[str] = field(default_factory=list)
    loops: list["Loop"] = field(default_factory=list)


@dataclass(frozen=True)
class Loop:
    """Lines ``first`` to ``last`` of ``function``."""

    function: Function
    first: int
    last: int

    @property
    def lines(self) -> list[str]:
        """Its text."""
        return self.function.lines[self.first : self.last + 1]

    @property
    def weight(self) -> int:
        """How busy it is."""
        return sum(_weight(line) for line in self.lines)


def excerpt(text: str, characters: int = CHARACTERS) -> str:
    """What matters most of a disassembly: innermost loops, the busiest first; functions without a loop from their
    beginning. What was left out is said."""
    functions = read(text)
    if not functions:
        return "there are no instructions in it"
    inner = sorted(innermost(functions), key=lambda loop: -loop.weight)
    straight = sorted((f for f in functions if not f.loops), key=lambda function: -len(function.lines))
    overview = "\n".join(f"{_lined(f.name)}: {len(f.lines)} lines, {len(f.loops)} loops" for f in functions[:20])
    blocks = [*map(_loop_text, inner), *(_block(f"{_lined(f.name)}, which has no loop", f.lines) for f in straight)]
    shown = [overview]
    for block in blocks:
        left = characters - sum(map(len, shown)) - 2 * len(shown)
        if left < _LEAST_ROOM:
            break
        shown.append(block if len(block) <= left else block[: left - 4].rpartition("\n")[0] + "\n…")
    if len(shown) <= len(blocks):
        shown.append(f"[{len(blocks) + 1 - len(shown)} more of these were left out]")
    return "\n\n".join(shown)


def read(text: str) -> list[Function]:
    """The functions in a disassembly, without those that every library has."""
    functions = list(_functions(text.splitlines()))
    for function in functions:
        function.loops = _loops(function)
    return [function for function in functions if function.lines and not _RUNTIME.search(function.name)]


def innermost(functions: Iterable[Function]) -> list[Loop]:
    """Loops that hold no other."""
    return [
        loop
        for function in functions
        for loop in function.loops
        if not any(_within(other, loop) for other in function.loops if other is not loop)
    ]


def _functions(lines: Sequence[str]) -> Iterator[Function]:
    function: Function | None = None
    for line in lines:
        if header := _HEADER.match(line):
            if function is not None:
                yield function
            function = Function(next(name for name in header.groups() if name))
        elif function is not None and (kept := _kept(line)):
            function.lines.append(kept)
    if function is not None:
        yield function


def _kept(line: str) -> str:
    """An instruction or a label, without its encoding and without the columns of blanks; empty for anything else."""
    line = _ENCODING.sub("", line)
    if _NOISE.match(line) or not (_ADDRESS.match(line) or _LABEL.match(line) or line.startswith(("\t", " "))):
        return ""
    return _BLANKS.sub(" ", line).strip()


def _loops(function: Function) -> list[Loop]:
    """From jumps back; several to one place are one loop."""
    places: dict[str, int] = {}
    spans: dict[int, int] = {}
    for index, line in enumerate(function.lines):
        if place := _place(line):
            places[place] = index
        jump = None if _CALL.search(line) else _JUMP.search(line)
        target = next((group.lstrip("0") for group in jump.groups() if group), "") if jump else ""
        first = places.get(target, index)
        # A kernel of a GPU ends with a jump to itself.
        if first < index:
            spans[first] = index
    return [Loop(function, first, last) for first, last in sorted(spans.items())]


def _place(line: str) -> str:
    """What a jump calls this line: its address without zeros in front, or its label."""
    if address := _ADDRESS.match(line):
        return (address["sass"] or address["objdump"]).lstrip("0")
    label = _LABEL.match(line)
    return label["label"] if label else ""


def _within(inner: Loop, outer: Loop) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _weight(line: str) -> int:
    return next((points for pattern, points in _WEIGHTS if pattern.search(line)), 0)


def _loop_text(loop: Loop) -> str:
    return _block(f"innermost loop of {_lined(loop.function.name)}", loop.lines)


def _block(title: str, lines: Sequence[str]) -> str:
    cut = [f"… {len(lines) - _LOOP_LINES} lines left out"] if len(lines) > _LOOP_LINES else []
    return "\n".join([f"# {title}: {len(lines)} lines", *lines[:_LOOP_LINES], *cut])


def _lined(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:99]}…"
