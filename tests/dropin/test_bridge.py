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


def test_a_single_number_stays_in_main_memory_where_the_candidate_has_it_there():
    module, number = Holder(torch.tensor(0)), Attribute("", Holder(torch.tensor(0)), "state")
    number.outer = lambda: module
    assert not number.is_at("is_cuda")
    assert number.share(Holder(torch.tensor(0)))
    assert number.is_at("is_cuda")
    assert number.share(Holder(torch.tensor(0, device="meta")))
    assert not number.is_at("is_cuda")


def test_whatever_is_no_tensor_is_everywhere():
    for state in (3, None, [torch.zeros(2)]):
        assert Attribute("", Holder(state), "state").is_at("is_cuda")
    module = Holder(torch.zeros(2))
    assert Attribute("", module, "state").is_at("")
    assert Attribute("", module, "gone").is_at("is_cuda")
