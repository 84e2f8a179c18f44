"""Modules whose loop over time sums in every step: scans of matrices, selective scans, recurrent cells."""

import torch
from torch import nn
from torch.nn import functional

STEPS = 8


class LinearAttention(nn.Module):
    def forward(self, q, k, v, decay):
        batch, _, heads, width = q.shape
        state = torch.zeros(batch, heads, width, v.shape[-1])
        outputs = []
        for t in range(STEPS):
            state = state * torch.sigmoid(decay[:, t])[..., None, None] + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
            outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
        return torch.stack(outputs, 1)


class Retention(nn.Module):
    """A matrix for a state, given and returned; a row times it."""

    def forward(self, q, k, v, state):
        outputs = []
        for t in range(STEPS):
            state = 0.9 * state + k[:, t, :, None] * v[:, t, None, :]
            outputs.append(torch.matmul(q[:, t, None, :], state)[:, 0])
        return torch.stack(outputs, 1), state


class DeltaRule(nn.Module):
    """What a step adds depends on a sum over what was there."""

    def forward(self, q, k, v, beta):
        batch, _, heads, width = q.shape
        state = q.new_zeros(batch, heads, width, v.shape[-1])
        k = functional.normalize(k, dim=-1)
        outputs = []
        for t in range(STEPS):
            key, strength = k[:, t], beta[:, t].sigmoid()
            old = (state * key[..., None]).sum(-2)
            state = state + key[..., None] * ((v[:, t] - old) * strength[..., None])[..., None, :]
            outputs.append((state * q[:, t][..., None]).sum(-2))
        return torch.stack(outputs, 1), state


class Backwards(nn.Module):
    """From the last step to the first; columns are summed over, and a second state norms them."""

    def forward(self, q, k, v):
        state, norm, outputs = 0.0, 0.0, [None] * STEPS
        for t in reversed(range(STEPS)):
            state = state + v[:, t, :, None] * k[:, t].exp()[:, None, :]
            norm = norm + k[:, t].exp()
            total = (norm * q[:, t].exp()).sum(-1, keepdim=True)
            outputs[t] = (state @ q[:, t].exp()[:, :, None])[..., 0] / total
        return torch.stack(outputs, 2)


class SelectiveScan(nn.Module):
    def __init__(self, channels=24, states=16):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, states + 1).float().repeat(channels, 1)))
        self.D = nn.Parameter(torch.ones(channels))

    def forward(self, u, dt, b, c):
        a = -torch.exp(self.A_log)
        delta = functional.softplus(dt)
        decay = torch.exp(delta.unsqueeze(-1) * a)
        added = delta.unsqueeze(-1) * b.unsqueeze(2) * u.unsqueeze(-1)
        h = torch.zeros(u.shape[0], u.shape[2], a.shape[1])
        outputs = []
        for t in range(STEPS):
            h = decay[:, t] * h + added[:, t]
            outputs.append((h * c[:, t].unsqueeze(1)).sum(-1))
        return torch.stack(outputs, 1) + u * self.D


class SelectiveScanOfProducts(nn.Module):
    def __init__(self, channels=24, states=5):
        super().__init__()
        self.A_log = nn.Parameter(torch.randn(channels, states))

    def forward(self, u, dt, b, c):
        batch, steps, channels = u.shape
        delta = functional.softplus(dt)
        decay = torch.exp(torch.einsum("bld,dn->bldn", delta, -self.A_log.float().exp()))
        added = torch.einsum("bld,bln,bld->bldn", delta, b, u)
        x = torch.zeros((batch, channels, self.A_log.shape[1]))
        outputs = []
        for i in range(steps):
            x = decay[:, i] * x + added[:, i]
            outputs.append(torch.einsum("bdn,bn->bd", x, c[:, i, :]))
        return torch.stack(outputs, dim=1)


class Cells(nn.Module):
    """A cell of PyTorch's in a loop; its state is returned beside all of them."""

    def __init__(self, cell, width=11):
        super().__init__()
        self.cell = cell(7, width)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.cell.hidden_size)
        outputs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outputs.append(h)
        return torch.stack(outputs, 1), h


class LongShort(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(7, 12)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 12)
        outputs = []
        for row in x.unbind(1):
            h, c = self.cell(row, (h, c))
            outputs.append(h)
        return torch.stack(outputs, 1), (h, c)


class SpelledOut(nn.Module):
    """Weights that multiply from the right, steps in the first dimension, backwards from a state that is given."""

    def __init__(self):
        super().__init__()
        self.w, self.u = nn.Parameter(torch.randn(7, 9) * 0.3), nn.Parameter(torch.randn(9, 9) * 0.3)
        self.b = nn.Parameter(torch.randn(9))

    def forward(self, x, h):
        outputs = []
        for t in reversed(range(x.shape[0])):
            h = torch.tanh(x[t] @ self.w + h @ self.u + self.b)
            outputs.insert(0, h)
        return torch.stack(outputs), h


class GatedSpelledOut(nn.Module):
    """A product of what another product gave in the same step, and an output of its own."""

    def __init__(self):
        super().__init__()
        self.x_gates, self.gates = nn.Linear(7, 27), nn.Linear(9, 18, bias=False)
        self.new, self.out = nn.Linear(9, 9), nn.Linear(9, 4)

    def forward(self, x):
        h = torch.zeros(x.size(0), 9)
        outputs = []
        for t in range(x.size(1)):
            xr, xz, xn = self.x_gates(x[:, t, :]).chunk(3, -1)
            hr, hz = self.gates(h).chunk(2, -1)
            z = torch.sigmoid(xz + hz)
            new = torch.tanh(xn + self.new(torch.sigmoid(xr + hr) * h))
            h = (1 - z) * new + z * h
            outputs.append(self.out(h).unsqueeze(1))
        return torch.cat(outputs, 1)


def heads(batch, heads, width, values):
    q, k = torch.randn(2, batch, STEPS, heads, width)
    return [q, k, torch.randn(batch, STEPS, heads, values), torch.randn(batch, STEPS, heads)]


def rows(batch, width, values):
    q, k = torch.randn(2, batch, STEPS, width)
    return [q, k, torch.randn(batch, STEPS, values)]


def scanned(batch, states):
    u, dt = torch.randn(2, batch, STEPS, 24)
    b, c = torch.randn(2, batch, STEPS, states)
    return [u, dt - 1, b, c]


CASES = {
    "linear_attention": (LinearAttention(), lambda: heads(2, 3, 8, 12), lambda: heads(5, 2, 33, 131)),
    "retention": (
        Retention(),
        lambda: [*rows(2, 8, 12), torch.randn(2, 8, 12)],
        lambda: [*rows(3, 5, 67), torch.randn(3, 5, 67)],
    ),
    "delta_rule": (DeltaRule(), lambda: heads(2, 3, 8, 12), lambda: heads(3, 2, 7, 65)),
    "backwards": (Backwards(), lambda: rows(2, 8, 12), lambda: rows(3, 13, 5)),
    "selective_scan": (SelectiveScan(), lambda: scanned(2, 16), lambda: scanned(7, 16)),
    "selective_scan_of_products": (SelectiveScanOfProducts(), lambda: scanned(2, 5), lambda: scanned(3, 5)),
    "rnn_cell": (Cells(nn.RNNCell), lambda: [torch.randn(4, STEPS, 7)], lambda: [torch.randn(9, STEPS, 7)]),
    "gru_cell": (Cells(nn.GRUCell), lambda: [torch.randn(4, STEPS, 7)], lambda: [torch.randn(9, STEPS, 7)]),
    "lstm_cell": (LongShort(), lambda: [torch.randn(4, STEPS, 7)], lambda: [torch.randn(9, STEPS, 7)]),
    "spelled_out": (
        SpelledOut(),
        lambda: [torch.randn(STEPS, 4, 7), torch.randn(4, 9)],
        lambda: [torch.randn(STEPS, 5, 7), torch.randn(5, 9)],
    ),
    "gated_spelled_out": (GatedSpelledOut(), lambda: [torch.randn(4, STEPS, 7)], lambda: [torch.randn(9, STEPS, 7)]),
}
"""Modules, their inputs, and inputs of another size."""
