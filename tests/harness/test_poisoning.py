"""Inputs that are intact only while a call on them is timed: something is replaced, and put back to the bit."""

from collections.abc import Callable

import pytest
import torch

from kernelswarm.hardware.harness.tensors.poisoning import SPOTS, Poisoning, generator

CPU = torch.device("cpu")
NUMBERS = torch.randn(64, 512, generator=torch.Generator().manual_seed(7))


def bits(tensor: torch.Tensor) -> bytes:
    storage = tensor.detach().clone().untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()  # bytes(storage) asks for one at a time


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: NUMBERS.clone(), id="float32"),
        pytest.param(lambda: NUMBERS.bfloat16(), id="bfloat16"),
        pytest.param(lambda: NUMBERS.to(torch.float8_e4m3fn), id="fp8"),
        pytest.param(lambda: NUMBERS > 0, id="bool"),
        pytest.param(lambda: torch.complex(NUMBERS.double(), NUMBERS.double() + 1), id="complex"),
        pytest.param(lambda: torch.randint(0, 97, (4096,)), id="labels"),
        pytest.param(lambda: NUMBERS.clone().t(), id="transposed"),
        pytest.param(lambda: torch.randn(64, 1024)[:, ::2], id="spread out"),
    ],
)
def test_elements_are_replaced_by_others_of_the_tensor_and_put_back(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    before, values = bits(tensor), set(tensor.flatten().tolist())
    poisoning = Poisoning([tensor], generator(CPU))
    assert bits(tensor) == before

    poisoning.poison()
    poisoned = bits(tensor)
    if tensor.is_contiguous() and not tensor.is_complex():
        assert values.issuperset(tensor.flatten().tolist())
    poisoning.restore()

    assert poisoned != before
    assert bits(tensor) == before


def test_what_lies_between_the_elements_is_neither_changed_nor_handed_out() -> None:
    wide = torch.full((8, 4096), 10**6)
    tensor = wide[:, :8]
    tensor.copy_(torch.arange(64).reshape(8, 8))
    for _ in range(20):
        poisoning = Poisoning([tensor], generator(CPU))
        poisoning.poison()
        assert int(tensor.max()) < 64
        assert bool((wide[:, 8:] == 10**6).all())
        poisoning.restore()
        assert torch.equal(tensor, torch.arange(64).reshape(8, 8))


def test_not_a_number_keeps_its_bits() -> None:
    patterns = torch.randint(0x7F800001, 0x7FFFFFFF, (4096,), dtype=torch.int32)
    tensor = patterns.view(torch.float32)
    poisoning = Poisoning([tensor], generator(CPU))
    poisoning.poison()
    poisoning.restore()
    assert torch.equal(tensor.view(torch.int32), patterns)


def test_what_is_replaced_is_new_each_time_and_little() -> None:
    tensor = torch.arange(1 << 20)
    changed = []
    for _ in range(2):
        poisoning = Poisoning([tensor], generator(CPU))
        poisoning.poison()
        changed.append({int(at) for at in (tensor != torch.arange(1 << 20)).nonzero()})
        poisoning.restore()
    assert SPOTS / 2 < len(changed[0]) <= SPOTS
    assert changed[0] != changed[1]


def test_every_tensor_may_be_the_one() -> None:
    large, small, nested = torch.arange(4096), torch.arange(64), torch.arange(128)
    inputs = [large, 3, [small, (nested,)], None]
    chosen = set()
    for _ in range(200):
        before = [tensor.clone() for tensor in (large, small, nested)]
        poisoning = Poisoning(inputs, generator(CPU))
        poisoning.poison()
        chosen |= {
            index for index, tensor in enumerate((large, small, nested)) if not torch.equal(tensor, before[index])
        }
        poisoning.restore()
    assert chosen == {0, 1, 2}


@pytest.mark.parametrize(
    "inputs", [[], [3, None, "x"], [torch.tensor(1.0)], [torch.empty(0, 5)], [torch.ones(1).expand(100)]]
)
def test_inputs_with_nothing_to_replace_are_left_alone(inputs: list[object]) -> None:
    before = [bits(tensor) for tensor in inputs if isinstance(tensor, torch.Tensor)]
    poisoning = Poisoning(inputs, generator(CPU))
    poisoning.poison()
    assert [bits(tensor) for tensor in inputs if isinstance(tensor, torch.Tensor)] == before
    poisoning.restore()
    assert [bits(tensor) for tensor in inputs if isinstance(tensor, torch.Tensor)] == before
