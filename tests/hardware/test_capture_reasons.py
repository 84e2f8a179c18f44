"""Given a reference that cannot be traced, the message names the operator or construct, and what helps."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from kernelswarm.hardware.capture.capture import capture
from kernelswarm.schemas import ProblemError


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(nn.ReLU())

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.as_tensor(self.inner(x))


def through_numpy(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy() * 2)


def with_sparse_tensors(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.sparse.mm(x[0].to_sparse(), x[0].t())


def by_a_value(x: Tensor, lengths: Tensor) -> Tensor:
    return x + 1 if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("reference", "cause", "way"),
    [
        (Packed(), "torch.nn.LSTM reads the sizes of a PackedSequence", "give it the padded tensor"),
        (through_numpy, "`.numpy()` takes its tensors out of PyTorch", "use PyTorch's operators"),
        (with_sparse_tensors, "`aten._to_sparse` of sparse tensors", "use dense tensors"),
        (by_a_value, "Python numbers or conditions", "use torch.where or a mask"),
        (Scripted(), "a module of torch.jit.script", "give the module that was scripted"),
    ],
    ids=["packed", "numpy", "sparse", "value", "script"],
)
def test_the_cause_and_what_helps(reference: Callable[..., Tensor], cause: str, way: str) -> None:
    inputs = [torch.randn(4, 6, 8), torch.tensor([6, 3, 2, 5])]
    with pytest.raises(ProblemError) as raised:
        capture(reference, inputs)
    assert cause in str(raised.value) and way in str(raised.value)
    assert str(raised.value).endswith("`--author outside`, or a model, needs no graph")
