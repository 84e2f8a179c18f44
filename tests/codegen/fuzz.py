"""Random graphs of pointwise operators, reductions, views and look-ups, against eager. Run as a script:

python fuzz.py RESULTS.json FIRST COUNT
"""

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from generated import attempt, build, differences, flat

UNARY = [
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.abs,
    torch.neg,
    lambda x: x * 0.5 + 1,
    lambda x: x.clamp(-1, 1),
    torch.sin,
    lambda x: x.exp().clamp(max=5),
    lambda x: (x * x + 1).rsqrt(),
    lambda x: torch.where(x > 0, x, x * 0.1),
    torch.floor,
]
BINARY = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: a * (b > 0),
]
REDUCE = [torch.sum, torch.mean, torch.amax, torch.amin, lambda x, d, k: x.var(d, keepdim=k, correction=0)]


def program(seed):
    """A random function of three tensors, as a list of steps that is replayed on any inputs."""
    rng = random.Random(seed)
    steps = [_step(rng) for _ in range(rng.randint(3, 9))]

    def function(x, row, column):
        values = [x, row + x * 0, column * 2 + x]
        for step in steps:
            values.append(step(values))
        outputs = values[3:][-3:]
        return tuple(outputs)

    return function


def _step(rng):
    kind = rng.choice(["unary", "unary", "binary", "binary", "reduce", "softmax", "view", "cat", "gather"])
    picks = [rng.random() for _ in range(3)]
    choice = rng.random()
    dim = rng.choice([0, 1, -1, (0, 1)])
    keep = rng.random() < 0.7

    def pick(values, which):
        full = [v for v in values if v.ndim == 2] or values
        return full[int(picks[which] * len(full))]

    def run(values):
        a, b = pick(values, 0), pick(values, 1)
        if kind == "unary":
            return UNARY[int(choice * len(UNARY))](a)
        if kind == "binary":
            same = [v for v in values if _fits(v, a)]
            return BINARY[int(choice * len(BINARY))](a, same[int(picks[1] * len(same))])
        if kind == "reduce":
            return REDUCE[int(choice * len(REDUCE))](a, dim, keep)
        if kind == "softmax":
            return torch.softmax(a, 1 if dim == (0, 1) else dim)
        if kind == "view":
            return [a.t().contiguous().t(), a.flip(0), a[:, : (a.shape[1] + 1) // 2] * 2, a.reshape(-1)][
                int(choice * 4)
            ]
        if kind == "cat":
            return torch.cat((a, a * 2), 0 if choice < 0.5 else 1)
        index = (b.reshape(-1)[: a.shape[0]].abs() * 7).long() % a.shape[0]
        return a[index]

    return run


def _fits(value, like):
    return value.ndim == like.ndim and all(s in (1, t) for s, t in zip(value.shape, like.shape, strict=True))


def inputs(rows, columns):
    return [torch.randn(rows, columns), torch.randn(columns), torch.randn(rows, 1)]


CONFIGS = [
    {},
    {"fusion": "split", "row_buffer": "none", "lanes": 16, "stream": True},
    {"row_buffer": "all", "keep_shared": True, "online": True},
    {"math": "libm", "double_sums": True, "variance": "shifted", "tile": 64, "block": 2048, "serial_below": 1},
]


def check(seed):
    torch.manual_seed(seed)
    function = _tolerant(program(seed))
    main = inputs(24, 70)
    target, load, source = build(function, main, CONFIGS[seed % len(CONFIGS)], f"fuzz{seed}")

    def compare():
        kernel = load()
        texts = []
        for number, arguments in enumerate([main, inputs(3, 130), inputs(9, 5)]):
            texts += [
                f"inputs {number}: {t}" for t in differences(flat(kernel(*arguments)), flat(target(*arguments)), 1e-3)
            ]
        return texts

    return compare, source


def _tolerant(function):
    """Sums of many terms cancel: results are divided by what they are sums of."""

    def wrapped(*args):
        return tuple(value / 10 for value in function(*args))

    return wrapped


def main(results, first, count):
    built = {}
    for seed in range(first, first + count):
        built[seed] = attempt(lambda seed=seed: check(seed))
    with ThreadPoolExecutor(2) as pool:
        run = {s: (m if isinstance(m, list) else None) for s, m in built.items()}
        texts = dict(
            zip(built, pool.map(lambda s: run[s] if run[s] is not None else attempt(built[s][0]), built), strict=True)
        )
    Path(results).write_text(json.dumps({str(s): text for s, text in texts.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
