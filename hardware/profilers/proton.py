"""What Proton saw inside Triton kernels: the share of each scope that the kernel's text opens (``pl.enter_scope``)."""

import json
import math
from collections.abc import Iterator
from typing import Any

SCOPES = ("enter_scope", "pl.scope")
"""What a file has to hold for Proton to see anything inside its kernels."""
LARGEST = 64 << 20
"""Bytes of a tree that are worth reading."""
_COUNTED = ("cycles", "time (ns)")


def has_scopes(source: str) -> bool:
    """Whether the candidate file ``source`` marks regions inside its kernels."""
    return "triton.profiler" in source and any(mark in source for mark in SCOPES)


def read_tree(text: str | bytes) -> dict[str, dict[str, float]]:
    """Share, 0 to 1, of each named region in its kernel, by kernel's name, from Proton's ``hatchet`` file.

    Raises:
        ValueError: it is no such file.
    """
    if len(text) > LARGEST:
        raise ValueError(f"this is no tree of Proton: {len(text) >> 20} MiB of it")
    try:
        return _read([node for node in json.loads(text) if isinstance(node, dict) and "frame" in node])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is no tree of Proton: {error}") from error


def _read(roots: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    by_kernel: dict[str, dict[str, float]] = {}
    for kernel, regions in _kernels(roots):
        amounts = by_kernel.setdefault(kernel, {})
        for region in regions:
            name = str(region["frame"]["name"])
            amounts[name] = amounts.get(name, 0.0) + _amount(region)
    shares = {kernel: _shares(amounts) for kernel, amounts in by_kernel.items()}
    return {kernel: regions for kernel, regions in shares.items() if regions}


def _kernels(nodes: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Nodes whose children are leaves that were counted: a kernel and its regions."""
    for node in nodes:
        children = node.get("children", [])
        leaves = [child for child in children if not child.get("children") and _amount(child)]
        if leaves and node["frame"]["name"] != "ROOT":
            yield str(node["frame"]["name"]), leaves
        yield from _kernels([child for child in children if child.get("children")])


def _shares(amounts: dict[str, float]) -> dict[str, float]:
    total = sum(amounts.values())
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return {name: amount / total for name, amount in ordered} if total else {}


def _amount(node: dict[str, Any]) -> float:
    metrics = node.get("metrics", {})
    amount = next((float(metrics[name]) for name in _COUNTED if name in metrics), 0.0)
    if not 0 <= amount < math.inf:
        raise ValueError(f"an amount of {amount}")
    return amount
