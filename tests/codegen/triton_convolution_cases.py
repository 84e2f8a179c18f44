"""Convolutions that Triton candidates are compared on with eager PyTorch, small: the interpreter is slow."""

import torch
import torch.nn.functional as F
from torch import nn
from triton_products_cases import h, r

CASES = {}


def case(*inputs, bound=2e-5, **config):
    """Register an operator with its inputs, the first for the capture, and the bound of its error."""

    def register(function):
        CASES[function.__name__] = (function, inputs, config, bound)
        return function

    return register


@case(lambda: [r(2, 3, 5, 6, 7), r(18, 3, 3, 2, 3), r(18)], lambda: [r(1, 3, 4, 5, 9), r(18, 3, 3, 2, 3), r(18)])
def convolution_of_few_channels(x, w, b):
    return torch.relu(F.conv3d(x, w, b))


@case(lambda: [r(2, 3, 11, 17), r(18, 3, 3, 5)], precision="ieee")
def convolution_of_few_padded(x, w):
    return F.conv2d(x, w, stride=(2, 3), padding=(1, 2), dilation=(2, 1))


@case(lambda: [r(2, 16, 5, 4, 6), r(18, 16, 3, 2, 1)], channels_last=True)
def convolution_of_volumes(x, w):
    return F.conv3d(x, w, padding=(1, 0, 1), stride=(1, 2, 1))


@case(lambda: [r(2, 32, 9, 8), r(40, 16, 3, 2), r(40)], channels_last=True)
def convolution_in_groups(x, w, b):
    return F.conv2d(x, w, b, padding=1, groups=2).sigmoid()


@case(lambda: [r(2, 16, 5, 7), r(16, 10, 3, 4), r(20)], lambda: [r(1, 16, 3, 9), r(16, 10, 3, 4), r(20)])
def transposed_in_groups(x, w, b):
    return F.conv_transpose2d(x, w, b, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2)


@case(lambda: [r(2, 16, 3, 4, 5), r(16, 9, 3, 2, 3)], channels_last=True)
def transposed_volumes(x, w):
    return torch.relu(F.conv_transpose3d(x, w, stride=2, padding=1, output_padding=(1, 0, 1)))


@case(lambda: [h(2, 16, 3, 4, 5), h(16, 9, 2, 3, 2)], bound=2e-3)
def transposed_volumes_half(x, w):
    return F.conv_transpose3d(x, w, padding=(0, 1, 0))


@case(lambda: [r(2, 16, 13), r(16, 20, 3), r(20)])
def transposed_lines(x, w, b):
    """Some outputs meet no input: step and dilation have a divisor."""
    return F.conv_transpose1d(x, w, b, stride=4, padding=1, dilation=2)


@case(lambda: [r(2, 16, 40), r(16, 20, 3)], precision="tf32", bound=5e-3)
def convolution_in_tf32(x, w):
    return F.conv1d(x, w.transpose(0, 1), padding=2, dilation=2)


@case(
    lambda: [r(2, 3, 11, 13), r(8, 3, 3, 3), r(8), r(4, 8, 1, 1), r(4, 8, 3, 3), r(8), r(8)],
    lambda: [r(1, 3, 9, 10), r(8, 3, 3, 3), r(8), r(4, 8, 1, 1), r(4, 8, 3, 3), r(8), r(8)],
    templates=False,
    channels_last=True,
)
def library_with_channels_last(x, first, bias, narrow, wide, scale, shift):
    """Pools, a concatenation, a batch's statistics and a sum between convolutions of the library."""
    y = F.max_pool2d(torch.relu(F.conv2d(x, first, bias, padding=1)), 3, 2, ceil_mode=True)
    both = torch.cat([torch.relu(F.conv2d(y, narrow)), torch.relu(F.conv2d(y, wide, padding=1))], 1)
    normal = F.batch_norm(both, None, None, scale, shift, training=True)
    return torch.relu(normal + y), normal.mean((2, 3)), F.conv2d(normal, wide).amax(1)


@case(
    lambda: [r(2, 6, 5, 7), r(6, 8, 3, 3), r(8), r(8, 4, 2, 2), r(5, 4, 3, 3)],
    lambda: [r(1, 6, 4, 9), r(6, 8, 3, 3), r(8), r(8, 4, 2, 2), r(5, 4, 3, 3)],
    templates=False,
    channels_last="transposed_too",
)
def library_transposed_with_channels_last(x, wide, bias, doubling, last):
    """Transposed convolutions of the library, the second of other strides, and one that is none."""
    y = torch.tanh(F.conv_transpose2d(x, wide, bias, stride=2, padding=1, output_padding=1))
    return torch.relu(F.conv2d(torch.sigmoid(F.conv_transpose2d(y, doubling, stride=2)), last))


@case(
    lambda: [r(2, 4, 3, 5, 4), r(8, 4, 3, 3, 3), r(8), r(8, 6, 2, 2, 2), r(6), r(5, 6, 3, 3)],
    lambda: [r(1, 4, 4, 3, 5), r(8, 4, 3, 3, 3), r(8), r(8, 6, 2, 2, 2), r(6), r(5, 6, 3, 3)],
    templates=False,
    channels_last="transposed_too",
)
def library_volumes_with_channels_last(x, wide, bias, doubling, shift, flat):
    """A norm and a pool between convolutions of volumes, and one of a plane that shares a parameter with them."""
    y = torch.tanh(F.instance_norm(F.conv3d(x, wide, bias, padding=1)))
    y = F.conv_transpose3d(y, doubling, shift, stride=2)
    plane = F.conv2d(y.mean(2) * shift.view(6, 1, 1), flat, padding=1)
    return torch.relu(F.avg_pool3d(y * shift.view(6, 1, 1, 1), 2)), plane


@case(
    lambda: [r(2, 6, 5, 7), r(8, 6, 3, 3), r(8), r(8, 4, 3, 3)],
    lambda: [r(1, 6, 4, 9), r(8, 6, 3, 3), r(8), r(8, 4, 3, 3)],
    templates=False,
    channels_last=True,
)
def library_with_channels_last_in_part(x, first, bias, groups):
    """One in groups has them as they were, and so have those who go by the order in memory, and results."""
    y = torch.relu(F.conv2d(x, first, bias, padding=1))
    z = torch.tanh(F.conv2d(y, groups, padding=1, groups=2) + y)
    return z, y.flatten(2), torch.exp(y.flatten(2).sort(-1)[0]), F.adaptive_avg_pool2d(y, 3) * 2


@case(lambda: [r(2, 3, 9, 7)], lambda: [r(3, 3, 6, 11)], templates=False, channels_last=True, split=4)
class library_norms_with_channels_last(nn.Module):
    """Norms over views of what has its channels last, in parts: of every channel, of groups of two, and of all."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.groups, self.whole = nn.GroupNorm(4, 8), nn.GroupNorm(1, 8)
        self.channels = nn.InstanceNorm2d(8)

    def forward(self, x):
        y = self.conv(x)
        groups = torch.tanh(self.groups(y)) + y
        pooled = self.groups(torch.tanh(F.max_pool2d(y, 2)))
        return self.channels(y) / 2, groups.logsumexp(1), self.whole(y).relu(), pooled


@case(lambda: [r(2, 3, 3, 5, 4)], lambda: [r(1, 3, 4, 3, 5)], templates=False, channels_last=True, variance="two_pass")
class library_norms_of_volumes_with_channels_last(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 8, 3, padding=1)
        self.groups, self.channels = nn.GroupNorm(2, 8), nn.InstanceNorm3d(8, affine=True)

    def forward(self, x):
        y = self.conv(x)
        level = self.groups(y - y.mean((1, 2), keepdim=True))
        return self.groups(y).mean((1, 2, 3, 4)), self.channels(y).amax(1), level
