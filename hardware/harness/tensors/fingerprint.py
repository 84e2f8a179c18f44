"""A fingerprint of a large tensor's bytes, computed in place: it shows changes without a second copy.

A sum of all 8-byte words, each times an odd random factor for its column and another for its row, modulo 2^64: a
change that does not know the factors goes unseen once in 2^60. What this module uses was bound before any candidate
is imported.
"""

import secrets

import torch

Fingerprint = tuple[int, bytes]

_COLUMNS = 1 << 20
_ROWS = 16
"""At once: 128 MiB, which are copied once by multiplying."""

_mul = torch._C.TensorBase.mul
_sum, _view, _randint = torch.sum, torch._C.TensorBase.view, torch.randint
_numel, _cpu = torch._C.TensorBase.numel, torch.Tensor.cpu
_int64 = torch.int64
_WRAP = 1 << 64


class Fingerprints:
    """Those of one process, comparable with each other only."""

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(secrets.randbits(63))

        def factors(count: int) -> torch.Tensor:
            drawn = _randint(-(1 << 63), (1 << 63) - 1, (count,), generator=generator, dtype=_int64)
            return (drawn | 1).to(device)

        self._columns, self._rows = factors(_COLUMNS), factors(_ROWS)
        self._step = secrets.randbits(64) | 1

    def of(self, flat: torch.Tensor) -> Fingerprint:
        """That of ``flat``, a vector of bytes on this device that begins at a multiple of eight."""
        count = _numel(flat) // 8 * 8
        words, digest, part_size = _view(flat[:count], _int64), 0, _ROWS * _COLUMNS
        for begin in range(0, _numel(words), part_size):
            part = words[begin : begin + part_size]
            digest = (digest * self._step + self._of_part(part)) % _WRAP
        return digest, bytes(_cpu(flat[count:]).tolist())

    def _of_part(self, part: torch.Tensor) -> int:
        rows = _numel(part) // _COLUMNS
        sums, rest = 0, part[rows * _COLUMNS :]
        if rows:
            by_row = _sum(_mul(_view(part[: rows * _COLUMNS], rows, _COLUMNS), self._columns), 1)
            sums = int(_sum(_mul(by_row, self._rows[:rows])))
        if _numel(rest):
            sums += int(_sum(_mul(rest, self._columns[: _numel(rest)]))) * self._step
        return sums % _WRAP
