"""A number for many bytes: every change shows, wherever it is."""

import pytest
import torch

from kernelswarm.hardware.harness.tensors.fingerprint import Fingerprints

SIZES = (0, 5, 8, 4096, (1 << 23) + 24, (1 << 24) + 3)
"""Bytes: less than a word, whole words, one row of the sums and a rest, two rows and a rest."""


@pytest.fixture(scope="module")
def fingerprints() -> Fingerprints:
    return Fingerprints(torch.device("cpu"))


@pytest.mark.parametrize("size", SIZES)
def test_a_copy_has_the_same(fingerprints: Fingerprints, size: int) -> None:
    data = torch.randint(0, 256, (size,), dtype=torch.uint8)
    assert fingerprints.of(data) == fingerprints.of(data.clone())


@pytest.mark.parametrize("size", [size for size in SIZES if size])
def test_any_byte_counts(fingerprints: Fingerprints, size: int) -> None:
    data = torch.randint(0, 256, (size,), dtype=torch.uint8)
    before = fingerprints.of(data)
    for index in {0, size // 2, size - 1}:
        data[index] ^= 1
        assert fingerprints.of(data) != before
        data[index] ^= 1
    assert fingerprints.of(data) == before


def test_order_counts(fingerprints: Fingerprints) -> None:
    """Also that of whole rows: a plain sum would miss it."""
    data = torch.randint(0, 256, (1 << 24,), dtype=torch.uint8)
    swapped = torch.cat([data[1 << 23 :], data[: 1 << 23]])
    assert fingerprints.of(data) != fingerprints.of(swapped)
    words = data.view(torch.int64)
    turned = words.clone()
    turned[[3, 7]] = words[[7, 3]]
    assert fingerprints.of(data) != fingerprints.of(turned.view(torch.uint8))


def test_the_top_bit_counts(fingerprints: Fingerprints) -> None:
    """The factors are odd: a change of the sign alone is not lost."""
    data = torch.zeros(4096, dtype=torch.uint8)
    before = fingerprints.of(data)
    data[8 * 100 + 7] = 0x80
    assert fingerprints.of(data) != before


def test_two_processes_have_different_ones() -> None:
    data = torch.randint(0, 256, (4096,), dtype=torch.uint8)
    assert Fingerprints(torch.device("cpu")).of(data) != Fingerprints(torch.device("cpu")).of(data)
