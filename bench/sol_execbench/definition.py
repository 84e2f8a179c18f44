"""What a problem's two files say (docs/definition.md and docs/workload.md of SOL-ExecBench)."""

from pathlib import Path
from typing import Any

import msgspec

from ...schemas import ProblemError


class Axis(msgspec.Struct, frozen=True):
    """A named size."""

    type: str
    """``const``, ``var`` (each workload gives it) or ``expr`` (of other axes)."""
    value: int | None = None
    expression: str = ""


class Value(msgspec.Struct, frozen=True):
    """An input or output."""

    shape: tuple[str | int, ...] | None
    """Axes or numbers; None is a Python number."""
    dtype: str
    description: str | None = None


class Definition(msgspec.Struct, frozen=True):
    """``definition.json``."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    reference: str
    """Python source with a function ``run``."""
    description: str | None = None
    custom_inputs_entrypoint: str | None = None
    """Function of the source that draws inputs of the type ``custom``."""


class Source(msgspec.Struct, frozen=True):
    """Where an input comes from."""

    type: str
    """``random``, ``scalar``, ``custom`` or ``safetensors``."""
    value: Any = None
    path: str = ""
    tensor_key: str = ""


class Tolerance(msgspec.Struct, frozen=True):
    """How far off this workload's outputs may be by the benchmark's own check."""

    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    required_matched_ratio: float = 0.99
    """Share of the elements that must lie within ``max_atol + max_rtol * |reference|``."""


class Workload(msgspec.Struct, frozen=True):
    """A line of ``workload.jsonl``."""

    axes: dict[str, int]
    inputs: dict[str, Source]
    uuid: str = ""
    tolerance: Tolerance | None = None


def read_definition(folder: Path) -> Definition:
    """``definition.json`` in ``folder``.

    Raises:
        ProblemError: it cannot be read, or is none.
    """
    try:
        return msgspec.json.decode(_bytes(folder / "definition.json"), type=Definition)
    except msgspec.DecodeError as error:
        raise ProblemError(f"{folder.name}/definition.json is no definition of SOL-ExecBench: {error}") from error


def read_workloads(folder: Path) -> list[Workload]:
    """The lines of ``workload.jsonl`` in ``folder``, at least one.

    Raises:
        ProblemError: it cannot be read, or a line is no workload.
    """
    lines = [line for line in _bytes(folder / "workload.jsonl").splitlines() if line.strip()]
    try:
        workloads = [msgspec.json.decode(line, type=Workload) for line in lines]
    except msgspec.DecodeError as error:
        raise ProblemError(f"{folder.name}/workload.jsonl has a line that is no workload: {error}") from error
    if not workloads:
        raise ProblemError(f"{folder.name}/workload.jsonl has no workload")
    return workloads


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProblemError(f"cannot read {path.parent.name}/{path.name}: {error.strerror}") from error
