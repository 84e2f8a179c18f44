"""State that lies elsewhere than a finished file's kernels look for it."""

import torch

from kernelswarm.hardware.dropin.bridge import Attribute


class Holder(torch.nn.Module):
    def __init__(self, state):
        super().__init__()
        self.state = state


def test_a_tensor_that_no_device_was_told_of_is_left_to_the_reference():
    module = Holder(torch.zeros(2, device="meta"))
    attribute = Attribute("", module, "state")
    assert not attribute.is_at("is_cuda")
    assert attribute.is_at("is_meta")


def test_numbers_and_whatever_is_no_tensor_are_everywhere():
    for state in (3, None, [torch.zeros(2)], torch.tensor(0)):
        assert Attribute("", Holder(state), "state").is_at("is_cuda")
    module = Holder(torch.zeros(2))
    assert Attribute("", module, "state").is_at("")
    assert Attribute("", module, "gone").is_at("is_cuda")
