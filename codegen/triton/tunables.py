"""The tunables of Triton kernels: what they may be set to for a graph on a GPU, and what they mean."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ...schemas import Config, HardwareFacts
from ..ir.tunables import SHIFTED_ERROR, Value

TRANSPOSED_TOO = "transposed_too"
"""Value of ``channels_last``."""

H200_MULTIPROCESSORS = 132
"""Taken where a device does not say how many it has."""
H200_SHARED_BYTES = 227 << 10
"""The same of the shared memory that a program can have."""

MOST_MEASURED = 8
"""Convolutions of a graph whose algorithms are measured by default. A size takes 0.04 to 0.25 s in every process that
calls it; three processes of VGG16 at once took 7 to 10 s each. Networks with more gain little: VGG16 ran in 2.33 ms
instead of 2.41, GoogLeNet in 1.57 instead of 1.61, but ResNet18 in 0.47 instead of 0.45, and ResNet50, DenseNet121 and
MobileNetV2 as fast (H200, whole networks in TF32)."""


@dataclass(frozen=True)
class GpuSettings:
    """One value for every tunable. The defaults are what is best most often; 0 means: chosen by the sizes."""

    multiprocessors: int = H200_MULTIPROCESSORS
    """Of the device: no tunable, but what sizes are chosen for."""
    shared_bytes: int = H200_SHARED_BYTES
    """The same of the most shared memory that a program can have."""
    fusion: str = "all"
    """``all``; ``rows``: no reduction over all rows in a rows' kernel; ``split``: a kernel for every reduction."""
    keep_shared: bool = False
    """Store pointwise values with several users instead of computing them for each."""
    variance: str = "two_pass"
    """``two_pass``; ``welford``: rows in blocks, and in parts, take mean and variance in one pass; ``shifted``: one
    over distances from the row's first element, less accurate where that lies far from the mean."""
    row: str = "auto"
    """``whole``: a program holds its rows in registers; ``loop``: it goes over them in blocks; ``auto``: by length."""
    online: bool = True
    """Softmax over blocks: maximum and sum in one pass, with rescaling, instead of two passes."""
    block: int = 0
    """Elements of a row that are handled at once where rows are looped over; of a pointwise kernel's program."""
    rows: int = 0
    """Rows of a program."""
    pieces: str = "products"
    """Rows whose length lies far below a power of two are split into two or three powers: of ``products`` only, ``all``
    that are held whole, or ``none``."""
    warps: int = 0
    """Warps of a program."""
    stages: int = 0
    """Blocks of a loop, or rows of a persistent program, whose loads are under way at once."""
    persistent: int = 0
    """Programs for each multiprocessor, each with many rows; 0: one program for each group of rows."""
    split: int = 0
    """Parts of a long reduction; 1: never split."""
    pointwise: str = "auto"
    """``flat``: one index over everything; ``tile``: rows and columns."""
    evict: bool = True
    """Tell the caches that what rows read for the last time may go first, and that what is read again is to stay."""
    stream: bool = False
    """Write past the caches."""
    math: str = "fast"
    """``fast``: hardware's approximations where there are some; ``accurate``: library functions."""
    # Products
    templates: bool = True
    """Products, attention and convolutions in Triton where the generator can; else all are left to PyTorch."""
    own_convolutions: bool = True
    """With templates: convolutions as well; else they alone are left to PyTorch."""
    windows: bool = True
    """Pooling and convolutions of every channel by itself in Triton, fused with what is around them."""
    tuned: bool = True
    """Convolutions that are left to PyTorch: have cuDNN measure its algorithms instead of going by its heuristics."""
    channels_last: bool | str = False
    """Convolutions read their input with its channels last, as a kernel writes it beforehand; those of the library
    write their result so as well, and what stands between them is computed in that order. ``transposed_too``: of the
    library's transposed ones, too."""
    prologue: str = "narrow"
    """What makes a product's operand is computed on its tiles: ``narrow``: where at most two tiles need each; ``all``;
    ``none``."""
    plain: str = "narrow"
    """Half-precision products with nothing to fuse: ``narrow``: those with a short side; ``all``; ``none``."""
    reassociate: bool = True
    """``A (B C)`` as ``(A B) C`` where that moves much less."""
    chain: bool = True
    """``(A B) C`` in one kernel where ``A B`` is small."""
    tile_m: int = 0
    tile_n: int = 0
    tile_k: int = 0
    """Tile of a matrix product."""
    group: int = 8
    """Rows of tiles that are worked on together, so that they share what the second-level cache holds."""
    split_k: int = 0
    """Parts of the summed dimension of a matrix product, added up in a fixed order by a second kernel; 0: as many as it
    takes to give every multiprocessor something to do, 1: none."""
    stream_k: bool = False
    """Give every multiprocessor an equal share of all tiles' sums; a second kernel adds up the tiles that were cut."""
    precision: str = "tf32x3"
    """fp32 products: ``tf32x3`` (three tf32 products, nearly fp32), ``tf32`` or ``ieee``."""
    halves: bool = True
    """``tf32x3`` of large products from operands that were split beforehand, blocks added up in fp32."""
    recurrent: bool = True
    """Recurrent layers in one kernel for all steps; else the library's."""

    @property
    def has_own_convolutions(self) -> bool:
        """Whether convolutions are computed in Triton where the generator can."""
        return self.templates and self.own_convolutions

    @property
    def programs(self) -> int:
        """Of a persistent kernel, on the whole device; 0: it has one for each group of rows."""
        return self.persistent * self.multiprocessors


@dataclass(frozen=True)
class GpuFeatures:
    """What a graph's kernels hold at the main shape: which tunables matter, and where they begin."""

    rows: bool = False
    loops: bool = False
    """A row is longer than a program's registers."""
    pointwise: bool = False
    tiles: bool = False
    """A pointwise kernel has several dimensions."""
    variance: bool = False
    softmax: bool = False
    transcendental: bool = False
    several_anchors: bool = False
    full: bool = False
    half: bool = False
    """Everything stored in floats is in half precision: approximations cost nothing."""
    products: bool = False
    matrices: bool = False
    """Products and attention, convolutions aside."""
    float32_matrices: bool = False
    """Products and attention in fp32."""
    float32_convolutions: bool = False
    convolutions: bool = False
    """Convolutions that a kernel of ours can take."""
    convolution_count: int = 0
    """More than one, whoever takes them."""
    transposed_convolutions: int = 0
    """In two or three dimensions and one group."""
    only_transposed: bool = False
    """No convolution is another one."""
    windows: bool = False
    """Pooling, or convolutions of every channel by itself."""
    library_convolutions: bool = False
    """Convolutions that no kernel of ours can take."""
    chains: bool = False
    """A product of a product that can be computed in another order."""
    small_chains: bool = False
    """A product of a product of which one program can do both."""
    row_length: int = 0
    parts: bool = False
    """A reduction that is put together of parts."""
    convolution_bound: float = math.inf
    """How wrong results of convolutions may be, in the judge's measure: of the one that may be most so."""
    variance_bound: float = math.inf
    """The same of variances."""
    recurrent: bool = False
    """Recurrent layers that fit the device."""
    beside_recurrent: bool = False
    """Kernels beside those of recurrent layers: without any, all would be left to PyTorch."""


FULL_BOUND = 1e-5
"""Below this a reference with fp32 convolutions did not run them in TF32, whatever was permitted: four times its own
error was 2e-6 to 9e-6 then, and 2e-4 to 2e-2 where it did (cuDNN 9 on an H200)."""
RECURRENT_BOUND = 5e-5
"""Below this a reference with fp32 recurrent layers did not run them in TF32: four times its own error was 1.2e-4 to
7e-3 where it did (cuDNN on an H200). In fp32 it is 3e-6 to 2e-5, and what our kernel is off a third to five times as
much: its products are in 16 bits."""
Domain = Callable[[GpuFeatures, HardwareFacts], tuple[Value, ...]]


def _when(condition: Callable[[GpuFeatures], bool], *values: Value) -> Domain:
    return lambda features, hardware: values if condition(features) else ()


def _row(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    return ("auto", "loop", "whole") if features.rows and 512 < features.row_length <= 1 << 16 else ()


def _rows(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    return (0, 1, 2, 4, 8, 16, 32) if features.rows and features.row_length <= 4096 else ()


def _templates(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    if features.float32_convolutions and not features.matrices:
        # Whose convolutions there are is another tunable.
        return ()
    # With nothing around products, all would be left to PyTorch.
    return (True, False) if features.products and (features.rows or features.pointwise) else ()


def _own_convolutions(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    # PyTorch's fp32 convolutions are hard to beat: what is around them, and their algorithm, come first.
    if features.float32_convolutions:
        return (False, True)
    return (True, False) if features.convolutions and features.matrices else ()


def _tuned(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    # With nothing around a convolution, the untuned one would be PyTorch's.
    left = features.float32_convolutions or features.library_convolutions
    if left and features.convolution_bound < FULL_BOUND:
        # Measured, an algorithm in TF32 wins: not the one that the reference has.
        return (False,)
    if not left or not (features.rows or features.pointwise):
        return ()
    return (True, False) if features.convolution_count <= MOST_MEASURED else (False, True)


def _channels_last(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    values = _channels_last_but_transposed(features)
    if not values or not features.transposed_convolutions:
        return values
    # Alone and followed by what is fused, 1.2 to 3 times as fast on an H200 as in the usual order. In U-Net they gain
    # nothing.
    return (TRANSPOSED_TOO, False) if features.only_transposed else (*values, TRANSPOSED_TOO)


def _channels_last_but_transposed(features: GpuFeatures) -> tuple[Value, ...]:
    # The library's convolutions in TF32 and in half precision are made for that order: torch.compile takes it, too.
    # One alone rearranges its input and its result by itself.
    if features.float32_convolutions and features.convolution_count > 1 and features.convolution_bound >= FULL_BOUND:
        return (True, False)
    if features.float32_convolutions and features.convolution_bound < FULL_BOUND:
        # In that order the library runs some in TF32 that it otherwise does not.
        return ()
    return (False, True) if features.convolutions or features.library_convolutions else ()


def _precision(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    # PyTorch's fp32 convolutions run in TF32 where nobody forbids it, its products do not.
    if features.float32_matrices:
        return ("tf32x3", "ieee")
    if features.float32_convolutions and features.convolution_bound < FULL_BOUND:
        return ("tf32x3", "ieee")
    return ("tf32", "tf32x3", "ieee") if features.float32_convolutions else ()


def _variance(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    if not features.variance:
        return ()
    shifted = ("shifted",) if features.variance_bound >= SHIFTED_ERROR else ()
    if features.loops:
        # Rows in blocks, and in parts, are read once instead of twice before they are written. Dense layers' transition
        # with a batch norm takes 0.88 ms instead of 1.03 (KernelBench 3/13, H200).
        return ("welford", *shifted, "two_pass")
    return ("two_pass", "welford", *shifted)


def _split(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    count = multiprocessors_of(hardware)
    return (0, 1, 64, 2 * count, 8 * count) if features.full else ()


def _math(features: GpuFeatures, hardware: HardwareFacts) -> tuple[Value, ...]:
    if not features.transcendental:
        return ()
    return ("fast", "accurate") if features.half else ("accurate", "fast")


GPU_DOMAINS: dict[str, Domain] = {
    "recurrent": _when(lambda t: t.recurrent and t.beside_recurrent, True, False),
    "warps": _when(lambda t: True, 0, 4, 8, 16, 2, 32, 1),
    "row": _row,
    "block": _when(lambda t: t.pointwise or t.rows, 0, 1024, 2048, 4096, 8192, 512),
    "persistent": _when(lambda t: t.rows, 0, 2, 4, 8, 1),
    "stages": _when(lambda t: t.rows or t.products, 0, 3, 4, 2, 1, 5),
    "tile_m": _when(lambda t: t.products, 0, 128, 64, 256, 32),
    "tile_n": _when(lambda t: t.products, 0, 128, 256, 64, 32),
    "tile_k": _when(lambda t: t.products, 0, 64, 32, 128),
    "precision": _precision,
    "templates": _templates,
    "own_convolutions": _own_convolutions,
    "prologue": _when(lambda t: t.products, "narrow", "none", "all"),
    "plain": _when(lambda t: t.products, "narrow", "none", "all"),
    "windows": _when(lambda t: t.windows and (t.products or t.library_convolutions), True, False),
    "tuned": _tuned,
    "channels_last": _channels_last,
    "reassociate": _when(lambda t: t.chains, True, False),
    "chain": _when(lambda t: t.small_chains, True, False),
    "rows": _rows,
    "pieces": _when(lambda t: t.rows, "products", "all", "none"),
    "math": _math,
    "fusion": _when(lambda t: t.several_anchors, "all", "rows", "split"),
    "online": _when(lambda t: t.softmax and t.loops, True, False),
    "variance": _variance,
    "split": _split,
    "pointwise": _when(lambda t: t.tiles, "auto", "flat", "tile"),
    "stream": _when(lambda t: True, False, True),
    "evict": _when(lambda t: t.rows, True, False),
    "halves": _when(lambda t: t.float32_matrices, True, False),
    "split_k": _when(lambda t: t.products, 0, 1, 2, 4, 8, 16),
    "stream_k": _when(lambda t: t.products, False, True),
    "group": _when(lambda t: t.products, 8, 4, 16, 1),
    "keep_shared": _when(lambda t: t.several_anchors, False, True),
}
"""Values of every tunable, the default first, in the order worth trying; empty: it does not matter."""


def gpu_domains(features: GpuFeatures, hardware: HardwareFacts) -> dict[str, tuple[Value, ...]]:
    """The tunables that matter, with their values; one that must not have its default may have a single one."""
    tunables = {name: domain(features, hardware) for name, domain in GPU_DOMAINS.items()}
    default = GpuSettings()
    return {
        n: values for n, values in tunables.items() if len(values) > 1 or values not in ((), (getattr(default, n),))
    }


def gpu_settings(config: Config, hardware: HardwareFacts | None = None) -> GpuSettings:
    """Settings from a config for a device: unknown tunables are ignored, missing ones have their default."""
    names = {field.name for field in fields(GpuSettings)}
    values: dict[str, Any] = {name: value for name, value in config.items() if name in names}
    if hardware is not None:
        values |= {"multiprocessors": multiprocessors_of(hardware), "shared_bytes": _shared_bytes_of(hardware)}
    return GpuSettings(**values)


def multiprocessors_of(hardware: HardwareFacts) -> int:
    """Of each of the pool's devices."""
    return next((device.multiprocessors for device in hardware.accelerators), 0) or H200_MULTIPROCESSORS


def _shared_bytes_of(hardware: HardwareFacts) -> int:
    """Of a program on each of the pool's devices."""
    return next((device.shared_bytes for device in hardware.accelerators), 0) or H200_SHARED_BYTES
