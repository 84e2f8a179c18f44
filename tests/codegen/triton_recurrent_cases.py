"""Recurrent layers: cases as in triton_products_cases.py. Layers of more than 16 units are several programs."""

import torch
from torch import nn
from triton_chains_cases import r

CASES = {}
ERROR_BOUND = 1e-3
"""What is left where the reference ran in TF32; where it did not, recurrent layers stay with the library."""
LARGE = {"lstm_on_many_programs", "gru_in_both_directions", "lstm_in_half_precision"}
"""These are compiled, not run: the interpreter would take minutes."""


def case(*inputs, bound=1e-4, **config):
    """Register a module with its inputs, the first for the capture, and the bound of its error."""

    def register(function):
        CASES[function.__name__] = (function, inputs, config, bound)
        return function

    return register


def with_infinities(x):
    x = x.clone()
    x[0, 1, 2], x[1, 0, 3] = float("inf"), float("-inf")
    return x


@case(
    lambda: [r(3, 5, 12), r(3, 3, 12), r(3, 3, 12)],
    lambda: [r(2, 7, 12) * 100, r(3, 2, 12), r(3, 2, 12) * 100],
)
class LstmLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(12, 12, 3, batch_first=True)

    def forward(self, x, h, c):
        out, (_, last) = self.layers(x, (h, c))
        return out[:, -1], last


@case(lambda: [r(5, 3, 20)], lambda: [with_infinities(r(4, 3, 20))])
class GruBothWays(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(20, 13, 2, bidirectional=True)

    def forward(self, x):
        return self.layers(x)


@case(lambda: [r(5, 3, 20), r(2, 3, 16)], lambda: [r(1, 3, 20), r(2, 3, 16)])
class rnn_without_biases(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.RNN(20, 16, 2, nonlinearity="relu", bias=False)

    def forward(self, x, h):
        return self.layers(x, h)


@case(lambda: [r(5, 3, 20), r(1, 3, 16)], lambda: [r(2, 1, 20), r(1, 1, 16)])
class rnn_of_one_layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.RNN(20, 16)

    def forward(self, x, h):
        return self.layers(x, h)[0] * 2


@case(lambda: [r(5, 3, 20).to(torch.bfloat16), r(2, 3, 16).to(torch.bfloat16)], bound=2e-2)
class gru_in_half_precision(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(20, 16, 2).to(torch.bfloat16)

    def forward(self, x, h):
        return self.layers(x, h)


@case(
    lambda: [r(5, 3, 20), r(2, 3, 16)],
    lambda: [with_infinities(r(4, 2, 20)), r(2, 2, 16)],
    lambda: [with_infinities(r(4, 2, 20)), with_infinities(r(2, 3, 16))[:, :2]],
)
class gru_over_gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(20, 16, 2)

    def forward(self, x, h):
        return self.layers(x, h)


@case(lambda: [r(4, 3, 7), r(2, 3, 10)], lambda: [r(3, 3, 7), with_infinities(r(2, 3, 10))])
class rnn_with_infinite_states(nn.Module):
    """Some of them meet weights of either sign in two parts, and weights of the layer above are infinite."""

    def __init__(self):
        super().__init__()
        self.layers = nn.RNN(7, 10, 2, nonlinearity="relu", bias=False)
        with torch.no_grad():
            self.layers.weight_hh_l0.abs_()
            self.layers.weight_ih_l1.abs_()[0, 0] = float("inf")
            self.layers.weight_hh_l1.abs_()

    def forward(self, x, h):
        return self.layers(x, h)


@case(lambda: [r(3, 4, 7), r(3, 3, 40), r(3, 3, 40)], lambda: [r(2, 3, 7), r(3, 2, 40), r(3, 2, 40)])
class lstm_of_several_programs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(7, 40, 3, batch_first=True)

    def forward(self, x, h, c):
        return self.layers(x, (h, c))


@case(lambda: [r(4, 3, 7)], multiprocessors=6)
class gru_in_two_launches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(7, 37, 3)

    def forward(self, x):
        return self.layers(x)


@case(lambda: [r(10, 32, 128), r(6, 10, 256), r(6, 10, 256)])
class lstm_on_many_programs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(128, 256, 6, batch_first=True)

    def forward(self, x, h, c):
        return self.layers(x, (h, c))


@case(lambda: [r(32, 10, 40), r(4, 10, 200)])
class gru_in_both_directions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.GRU(40, 200, 2, bidirectional=True)

    def forward(self, x, h):
        return self.layers(x, h)


@case(lambda: [r(32, 20, 64).to(torch.bfloat16)])
class lstm_in_half_precision(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(64, 1024, 2).to(torch.bfloat16)

    def forward(self, x):
        return self.layers(x)[0]
