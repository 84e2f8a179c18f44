"""Batch event truncate: keep the last events of every sample of a nested jagged batch.

A sample has a number of events (``outer``), an event a number of ids (``inner``), and ``values`` holds all ids one
after the other: ``outer.sum() == len(inner)``, ``inner.sum() == len(values)``. Samples with more than ``KEPT`` events
lose the oldest ones; the answer is the three tensors of the shorter batch. Samples and events may be empty.

Source: a preprocessing operator of KernelEvolve (Meta, 2025).
"""

import torch

KEPT = 32

shapes = {
    "main": {"samples": 4096, "events": 100, "ids": 16},
    "ragged": {"samples": 37, "events": 90, "ids": 3},
    "flat": {"samples": 129, "events": 50, "ids": 1},
    "two_samples": {"samples": 2, "events": 333, "ids": 7},
}


def inputs(generator: torch.Generator, samples: int, events: int, ids: int) -> list[torch.Tensor]:
    outer = torch.randint(0, events + 1, (samples,), generator=generator)
    # One long sample at least, or there is nothing to cut; one short, or every length of the answer is the same.
    outer[0], outer[-1] = events, 5
    inner = torch.randint(0, ids + 1, (int(outer.sum()),), generator=generator)
    values = torch.randint(0, 2**40, (int(inner.sum()),), generator=generator)
    return [outer, inner, values]


def reference(
    outer: torch.Tensor, inner: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    # One past the last event of the sample that each event belongs to.
    end = torch.repeat_interleave(torch.cumsum(outer, dim=0), outer)
    event = torch.arange(inner.numel(), device=inner.device)
    keep = end - event <= KEPT
    keep_value = torch.repeat_interleave(keep, inner)
    return torch.clamp(outer, max=KEPT), inner[keep], values[keep_value]
