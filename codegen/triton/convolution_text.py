"""Triton text of convolutions: rows are positions of all images, columns filters, sums run over taps and channels.

A transposed convolution with steps is one convolution for every remainder of an output's position: the taps that meet
inputs there lie evenly apart, so each such phase is a sum over fewer taps, and no multiplication by zero is done.
"""

import math
from dataclasses import dataclass

from .rows import indent

LETTERS = "zyx"
_NAMES = {"z": "DEPTH", "y": "HEIGHT", "x": "WIDTH"}

LOCALS = {
    "acc", "rest", "group", "tile_m", "rm", "rn", "rk", "image", "images", "there", "taps", "step", "tap", "term",
    "channel", "inside", "values", "filters", "place", "spatial", "rows", "cols", "row_mask", "col_mask",
    *(f"{n}_{c}" for n in ("phase", "at", "out", "turn", "first", "taps", "begin", "t", "p") for c in LETTERS),
}  # fmt: skip
"""Names that the text uses."""

ROUND = "tl.where({0} == {0}, (({0}.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True), {0})"
"""To the next number of tf32: matrix units would cut off what is too long."""


@dataclass(frozen=True)
class Slide:
    """How the window goes over one dimension."""

    stride: int
    padding: int
    dilation: int
    transposed: bool

    @property
    def phases(self) -> int:
        """Kinds of output positions that meet different taps."""
        return self.stride if self.transposed else 1

    @property
    def skip(self) -> int:
        """Taps from one that meets an input to the next."""
        return self.phases // math.gcd(self.phases, self.dilation)

    @property
    def move(self) -> int:
        """Inputs from one of these taps to the next."""
        return -self.dilation // math.gcd(self.phases, self.dilation) if self.transposed else self.dilation

    @property
    def checked(self) -> bool:
        """Whether the window may reach beyond the input."""
        return self.transposed or self.padding > 0

    def first(self, turn: int) -> int | None:
        """The first tap that meets an input where output and padding leave ``turn`` over; None: there is none."""
        return next((t for t in range(self.phases) if t * self.dilation % self.phases == turn), None)


@dataclass(frozen=True)
class Cut:
    """How a convolution is cut into programs: filters, positions, and what is summed at once."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


@dataclass(frozen=True)
class ConvolutionText:
    """Writes the body up to the finished sums, as filters by positions in ``acc``."""

    slides: tuple[Slide, ...]
    groups: int
    cut: Cut
    widths: tuple[int, ...]
    """Few channels: taps of the last dimensions, rounded up to powers of two, that are summed over at once together
    with all channels; 0 for dimensions that are looped over. Empty: channels are summed over tap by tap."""
    channels: int
    """Channels rounded up to a power of two, where there are few."""
    last: bool
    """The input comes with its channels last."""
    rounded: bool
    """The input is rounded to tf32 here."""
    precision: str
    bias: bool

    @property
    def flat(self) -> bool:
        """Whether taps are summed over together with channels."""
        return bool(self.widths)

    @property
    def letters(self) -> str:
        """One for each dimension."""
        return LETTERS[-len(self.slides) :]

    def lines(self) -> list[str]:
        """The body."""
        added = ["acc += tl.load(ks_bias_ptr + BASE + rm, mask=rm < FILTERS, other=0.0).to(tl.float32)[None, :]"]
        lines = [
            *self._place(),
            f"acc = tl.zeros([{self.cut.n}, {self.cut.m}], tl.float32)",
            *self._sum(),
            *(added if self.bias else []),
            "acc = tl.trans(acc)",
            "rows = (BASE + rm)[:, None]",
            "row_mask = (rm < FILTERS)[:, None]",
            f"cols = ({self._position()})[None, :]",
            "col_mask = there[None, :]",
        ]
        base = "group * FILTERS + " if self.groups > 1 else ""
        return [line.replace("BASE + ", base) for line in lines]

    def steps(self, sizes: tuple[str, ...]) -> str:
        """Positions of one phase in one image, for the output's sizes."""
        parts = (_over(size, slide.phases) for size, slide in zip(sizes, self.slides, strict=True))
        return " * ".join(parts)

    def _place(self) -> list[str]:
        cut = self.cut
        lines = [
            "rest = tl.program_id(0)",
            f"tile_m = rest % ((FILTERS + {cut.m - 1}) // {cut.m})",
            f"rest = rest // ((FILTERS + {cut.m - 1}) // {cut.m})",
        ]
        counted = [("group", self.groups), *((f"phase_{c}", s.phases) for c, s in self._dims())]
        for name, count in counted:
            lines += [f"{name} = rest % {count}", f"rest = rest // {count}"] if count > 1 else []
        lines += [
            f"rm = tile_m * {cut.m} + tl.arange(0, {cut.m})",
            f"rn = rest * {cut.n} + tl.arange(0, {cut.n})",
            f"rk = tl.arange(0, {cut.k})",
            "image = rn",
        ]
        for c, slide in reversed(self._dims()):
            size = _over(f"OUT_{c.upper()}", slide.phases)
            lines += [f"at_{c} = image % {size}", f"image = image // {size}"]
        lines.append("there = image < images")
        for c, slide in self._dims():
            lines += self._begin(c, slide)
        return lines

    def _dims(self) -> list[tuple[str, Slide]]:
        return list(zip(self.letters, self.slides, strict=True))

    def _begin(self, c: str, slide: Slide) -> list[str]:
        """Where the window of a position begins, and how many taps it has."""
        if not slide.transposed:
            return [f"begin_{c} = at_{c} * {slide.stride} - {slide.padding}"]
        if slide.phases == 1:
            return [f"begin_{c} = at_{c} + {slide.padding}"]
        turns = [slide.first(turn) for turn in range(slide.phases)]
        first = "tl.where({0} == {1}, {2}, {3})"
        text = f"TAPS_{c.upper()}" if turns[-1] is None else str(turns[-1])
        for turn in reversed(range(slide.phases - 1)):
            tap = f"TAPS_{c.upper()}" if turns[turn] is None else turns[turn]
            text = first.format(f"turn_{c}", turn, tap, text)
        return [
            f"out_{c} = at_{c} * {slide.phases} + phase_{c}",
            f"there = there & (out_{c} < OUT_{c.upper()})",
            f"turn_{c} = (phase_{c} + {slide.padding}) % {slide.phases}",
            f"first_{c} = {text}",
            f"taps_{c} = tl.maximum(0, (TAPS_{c.upper()} - first_{c} + {slide.skip - 1}) // {slide.skip})",
            f"begin_{c} = (out_{c} + {slide.padding} - first_{c} * {slide.dilation}) // {slide.phases}",
        ]

    def _taps(self, c: str, slide: Slide) -> str:
        return f"taps_{c}" if slide.phases > 1 else f"TAPS_{c.upper()}"

    def _sum(self) -> list[str]:
        cut, body = self.cut, list[str]()
        looped = [(c, slide) for c, slide in self._dims() if not self._width(c)]
        taps = " * ".join(self._taps(c, slide) for c, slide in looped) or "1"
        if self.flat:
            # Powers of two: where a thread's terms lie is known when the kernel is compiled.
            chunks = self.channels * math.prod(filter(None, self.widths)) // cut.k
            body += [f"tap = step // {chunks}", f"term = (step % {chunks}) * {cut.k} + rk"]
            for c in reversed(self.letters):
                width = self._width(c)
                body += [f"t_{c} = term % {width}", f"term = term // {width}"] if width else []
            body.append("channel = term")
            steps = f"taps * {chunks}"
        else:
            # Taps follow each other: most of what they read lies in the cache already.
            count = self._divisor("taps", self.slides)
            body += [f"tap = step % {count}", f"channel = (step // {count}) * {cut.k} + rk"]
            steps = f"taps * ((CHANNELS + {cut.k - 1}) // {cut.k})"
        for c, slide in reversed(looped[1:]):
            count = self._divisor(self._taps(c, slide), (slide,))
            body += [f"t_{c} = tap % {count}", f"tap = tap // {count}"]
        body += [f"t_{looped[0][0]} = tap"] if looped else []
        precision = f', input_precision="{self.precision}"' if self.precision else ""
        body += [*self._input(), *self._filters(), f"acc = tl.dot(values, filters, acc{precision})"]
        return [f"taps = {taps}", f"for step in range(0, {steps}):", *indent(body)]

    def _divisor(self, count: str, slides: tuple[Slide, ...]) -> str:
        """Where some phase has no taps, its loop is never entered, but the compiler may divide before it."""
        return f"tl.maximum({count}, 1)" if any(slide.phases > 1 for slide in slides) else count

    def _width(self, c: str) -> int:
        return dict(zip(self.letters, self.widths, strict=False)).get(c, 0)

    def _input(self) -> list[str]:
        """A block of the input, positions by channels."""
        # The dimension along which memory is contiguous comes last.
        of_place, of_channel = ("[:, None]", "[None, :]") if self.last else ("[None, :]", "[:, None]")
        lines, inside = [], ["there" + of_place]
        for c, slide in self._dims():
            step = f"t_{c} * {slide.move}"
            if self._width(c):
                lines.append(f"p_{c} = begin_{c}{of_place} + ({step}){of_channel}")
            else:
                lines.append(f"p_{c} = {f'(begin_{c} + {step}){of_place}' if self.flat else f'begin_{c} + {step}'}")
            if slide.checked:
                check = f"(p_{c} >= 0) & (p_{c} < {_NAMES[c]})"
                inside.append(f"({check})" if self.flat else f"({check}){of_place}")
        place = f"p_{self.letters[0]}"
        for c in self.letters[1:]:
            place = f"({place}) * {_NAMES[c]} + p_{c}"
        area = " * ".join(_NAMES[c] for c in self.letters)
        channel = "(group * CHANNELS + channel)" if self.groups > 1 else "channel"
        total = f"({self.groups} * CHANNELS)"
        if self.last:
            pointer = f"((image * ({area}) + {place}) * {total}){of_place} + {channel}{of_channel}"
        elif self.flat:
            pointer = f"(image * ({total} * {area})){of_place} + {place} + ({channel} * ({area})){of_channel}"
        else:
            pointer = f"(image * ({total} * {area}) + {place}){of_place} + ({channel} * ({area})){of_channel}"
        lines += [
            f"inside = {' & '.join(inside)}{self._limit(of_channel)}",
            f"values = tl.load(ks_x_ptr + {pointer}, mask=inside, other=0.0)",
        ]
        lines += [f"values = {ROUND.format('values')}"] if self.rounded else []
        return [*lines, *([] if self.last else ["values = tl.trans(values)"])]

    def _limit(self, brackets: str) -> str:
        """The mask of terms, empty where the launch leaves none over."""
        if self.flat:
            taps = [f"(t_{c} < {self._taps(c, s)})" for c, s in self._dims() if self._width(c)]
            return f" & ({' & '.join(['(channel < CHANNELS)', *taps])}){brackets}"
        return f" & (channel < CHANNELS if CHANNELS % {self.cut.k} else rk >= 0){brackets}"

    def _filters(self) -> list[str]:
        """A block of the filters, channels by filters; in memory channels come last."""
        tap = ""
        for c, slide in self._dims():
            own = f"t_{c}" if slide.phases == 1 else f"first_{c} + t_{c} * {slide.skip}"
            tap = f"({tap}) * TAPS_{c.upper()} + {own}" if tap else own
        taps = " * ".join(f"TAPS_{c.upper()}" for c in self.letters)
        mask = self._limit("[:, None]").removeprefix(" & ")
        pointer = f"((BASE + rm) * ({taps} * CHANNELS))[None, :] + (({tap}) * CHANNELS + channel)[:, None]"
        return [f"filters = tl.load(ks_w_ptr + {pointer}, mask=(rm < FILTERS)[None, :] & {mask}, other=0.0)"]

    def _position(self) -> str:
        """The output's place among those of all images."""
        if all(slide.phases == 1 for slide in self.slides):
            return "rn"
        text = "image"
        for c, slide in self._dims():
            text = f"({text}) * OUT_{c.upper()} + {'out' if slide.phases > 1 else 'at'}_{c}"
        return text


def _over(size: str, phases: int) -> str:
    return size if phases == 1 else f"(({size} + {phases - 1}) // {phases})"


FILTERS_TEXT = """at = tl.program_id(0).to(tl.int64) * 1024 + tl.arange(0, 1024)
mask = at < total
channel = at % CHANNELS
tap = at // CHANNELS % TAPS
filter_index = at // (CHANNELS * TAPS)
x = tl.load(ks_w_ptr + {source}, mask=mask, other=0.0)
{rounded}tl.store(ks_filters_out + at, x, mask=mask)"""
"""Filters with their channels last."""
PLAIN_SOURCE = "(filter_index * CHANNELS + channel) * TAPS + tap"
TRANSPOSED_SOURCE = "((filter_index // FILTERS * CHANNELS + channel) * FILTERS + filter_index % FILTERS) * TAPS + tap"

LAST_TEXT = """place = (tl.program_id(0) * 64 + tl.arange(0, 64)).to(tl.int64)
channel = (tl.program_id(1) * {block} + tl.arange(0, {block})).to(tl.int64)
image = tl.program_id(2).to(tl.int64)
mask = (channel < CHANNELS)[:, None] & (place < area)[None, :]
x = tl.load(ks_x_ptr + image * CHANNELS * area + channel[:, None] * area + place[None, :], mask=mask, other=0.0)
{rounded}x = tl.trans(x)
mask = (place < area)[:, None] & (channel < CHANNELS)[None, :]
tl.store(ks_last_out + (image * area + place[:, None]) * CHANNELS + channel[None, :], x, mask=mask)"""
"""An input with its channels last."""
