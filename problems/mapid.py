"""MapId: raw ids to positions in a sorted table, counted from 1; 0 for an id that the table does not hold.

Source: the preprocessing operator of KernelEvolve (Meta, 2025): bucketize, clamp, gather, ``where(equal, index + 1,
0)``; there with 2,000 to 50,000 ids a batch and tables of 100 to 50,000.
"""

import torch

shapes = {
    "main": {"ids": 50000, "size": 50000},
    "small_table": {"ids": 2000, "size": 100},
    "odd": {"ids": 333, "size": 1001},
    "one_entry": {"ids": 129, "size": 1},
    "few_ids": {"ids": 7, "size": 4096},
}


def inputs(generator: torch.Generator, ids: int, size: int) -> list[torch.Tensor]:
    # Gaps of at least 1 keep the table sorted and free of repeats; a gap of more leaves ids that it does not hold.
    table = torch.cumsum(torch.randint(1, 1000, (size,), generator=generator), dim=0)
    known = table[torch.randint(0, size, (ids,), generator=generator)]
    unknown = torch.randint(0, 1000 * (size + 1), (ids,), generator=generator)
    x = torch.where(torch.rand(ids, generator=generator) < 0.7, known, unknown)
    # One of each kind whatever the draw, so that no constant is ever right.
    x[0], x[1] = table[-1], table[-1] + 1
    return [x, table]


def reference(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    index = torch.bucketize(x, table)
    index = torch.clamp(index, max=table.numel() - 1)
    return torch.where(table[index] == x, index + 1, 0)
