"""Control: the largest of the inputs, and their softmax."""

import torch


def kernel(x):
    largest, places = torch.topk(x, 64)
    return torch.softmax(largest, -1), places
