"""Attention with masks as one C++ kernel: scores of every form, queries without keys, and what is not attention."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compared import Pair
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.hardware.capture.capture import capture


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where candidates and their libraries lie."""
    path = tmp_path_factory.mktemp("attention")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path))
        yield path


def window(length: int) -> Any:
    i = torch.arange(length)
    distance = i[:, None] - i[None]
    return (distance >= 0) & (distance < 40)


def called_with_a_window(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=window(q.shape[-2]))


def called_with_a_mask(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)


def spelled(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Of tokens, with heads side by side, a cap on the scores and a bias."""
    b, n, d = q.shape
    q, k, v = (x.view(b, n, 2, d // 2).transpose(1, 2) for x in (q, k, v))
    scores = torch.tanh(q @ k.transpose(-1, -2) / 8) * 8 + 0.01 * torch.arange(n)
    scores = scores.masked_fill(~(seen[:, None, None] & window(n)), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)


def shared_heads(q: Any, k: Any, v: Any) -> Any:
    """Keys and values of one head for all queries' heads, rotated before."""
    k, v = (x.expand(q.shape[0], q.shape[1], *x.shape[2:]) for x in (k * 2 + 1, v))
    return F.scaled_dot_product_attention(torch.sigmoid(q), k, v, attn_mask=window(q.shape[-2])) * 2


def shares_too(q: Any, k: Any, v: Any) -> Any:
    shares = (q @ k.transpose(-1, -2)).masked_fill(~window(q.shape[-2]), float("-inf")).softmax(-1)
    return shares, shares @ v


def heads(length: int, width: int = 24, out: int = 24, batch: int = 2, dtype: torch.dtype = torch.float32) -> list[Any]:
    sizes = (width, width, out)
    return [torch.randn(batch, 3, length, size, dtype=dtype) for size in sizes]


def with_mask(length: int, *batch: int) -> list[Any]:
    mask = torch.rand(*batch, length, length) > 0.3
    mask[..., :, 64:] = False
    mask[..., 5, :] = False
    return [*heads(length), mask]


def tokens(length: int) -> list[Any]:
    seen = torch.rand(2, length) > 0.2
    seen[:, 0] = True
    return [*(torch.randn(2, length, 48) for _ in range(3)), seen]


def few_heads(length: int) -> list[Any]:
    return [torch.randn(2, 3, length, 16), torch.randn(2, 1, length, 16), torch.randn(2, 1, length, 16)]


def no_shares(batch: int) -> list[Any]:
    return [torch.randn(batch, 80, 8) for _ in range(3)]


CASES = {
    "window": (
        called_with_a_window,
        lambda: heads(200, width=32),
        lambda: heads(65, width=32),
        lambda: heads(3, 32, 1),
    ),
    "mask": (called_with_a_mask, lambda: with_mask(130, 2, 1), lambda: with_mask(70, 2, 1)),
    "spelled": (spelled, lambda: tokens(130), lambda: tokens(64), lambda: tokens(7)),
    "shared_heads": (shared_heads, lambda: few_heads(100), lambda: few_heads(90)),
    "half": (called_with_a_window, lambda: heads(100, dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_is_one_kernel_that_is_right_at_every_size(name: str, folder: Path) -> None:
    function, *makers = CASES[name]
    pair = Pair(function, makers[0](), "cpp", folder / f"{name}.py")

    plan = plan_of(pair.graph, Settings())
    assert [kernel.kind for kernel in plan.kernels if hasattr(kernel, "kind")] == ["attention"]
    assert {node.target for node in plan.externs} <= {"operator.getitem"}
    if name == "half":
        given = makers[0]()
        torch.testing.assert_close(pair.kernel(*given), function(*given), rtol=2e-2, atol=2e-2)
        return
    for maker in makers:
        pair.call(maker)


def test_spelled_out_a_query_without_keys_has_no_number(folder: Path) -> None:
    given = tokens(100)
    given[3][1] = False
    pair = Pair(spelled, given, "cpp", folder / "nothing.py")
    result = pair.kernel(*given)

    assert result[1].isnan().all()
    torch.testing.assert_close(result[0], spelled(*given)[0])


def test_shares_that_are_a_result_are_computed(folder: Path) -> None:
    pair = Pair(shares_too, no_shares(4), "cpp", folder / "shares.py")

    assert "aten.bmm.default" in {node.target for node in plan_of(pair.graph, Settings()).externs}
    pair.call(lambda: no_shares(2))


def test_the_library_gets_rows_without_gaps(folder: Path) -> None:
    def strided() -> list[Any]:
        return [torch.randn(2, 4, 64, 32).to(memory_format=torch.channels_last) for _ in range(3)]

    def causal(q: Any, k: Any, v: Any) -> Any:
        return F.silu(F.scaled_dot_product_attention(q * 0.5, k, v, is_causal=True))

    pair = Pair(causal, [tensor.contiguous() for tensor in strided()], "cpp", folder / "strided.py")
    pair.call(strided)


def test_without_a_mask_the_library_is_first() -> None:
    graph = capture(lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v, heads(100))
    tunables = CODEGEN_BACKENDS["cpp"].tunables(graph, HARDWARE)
    plans = {value: plan_of(graph, Settings(attention=value)) for value in ("masked", "all")}

    assert tunables is not None
    assert tunables["attention"] == ("masked", "library", "all")
    assert [len(plan.externs) for plan in plans.values()] == [2, 0]


def next_token(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q * 2, k, v)


def next_token_spelled(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v


def next_token_of_groups(q: Any, k: Any, v: Any) -> Any:
    k, v = (x.repeat_interleave(3, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=0.2)


def next_token_with_a_mask(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def decoder(keys: int, *, queries: int = 1, heads: int = 2, groups: int = 1, out: int = 40) -> list[Any]:
    sizes = ((heads * groups, queries, 40), (heads, keys, 40), (heads, keys, out))
    return [torch.randn(2, *size) for size in sizes]


def hidden(keys: int) -> list[Any]:
    mask = torch.rand(2, 1, 1, keys) > 0.5
    mask[0] = False
    mask[1, ..., 3:] = False
    return [*decoder(keys), mask]


FEW_QUERIES = {
    "called": (next_token, lambda: decoder(300), lambda: decoder(128), lambda: decoder(3)),
    "several": (next_token, lambda: decoder(300, queries=3), lambda: decoder(131, queries=2)),
    "spelled": (
        next_token_spelled,
        lambda: decoder(700, out=24),
        lambda: decoder(129, out=65),
        lambda: decoder(1000, heads=9),
    ),
    "groups": (next_token_of_groups, lambda: decoder(400, groups=3), lambda: decoder(127, groups=3)),
    "mask": (next_token_with_a_mask, lambda: hidden(500), lambda: hidden(200)),
}


@pytest.mark.parametrize("name", FEW_QUERIES)
def test_few_queries_share_the_keys_out(name: str, folder: Path) -> None:
    function, *makers = FEW_QUERIES[name]
    pair = Pair(function, makers[0](), "cpp", folder / f"few_{name}.py")
    plan = plan_of(pair.graph, Settings())

    assert [kernel.kind for kernel in plan.kernels if hasattr(kernel, "kind")] == ["attention"]
    assert not plan.externs and "ks_chunk" in pair.source
    for maker in makers:
        pair.call(maker)


def query_on_the_right(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Scores are the column of a product, which heads beside each other look like the queries of."""
    scores = (k @ q.transpose(-1, -2)).squeeze(-1) * q.shape[-1] ** -0.5
    return scores.masked_fill(~seen, float("-inf")).softmax(-1).unsqueeze(2) @ v


def test_heads_are_not_taken_for_queries(folder: Path) -> None:
    def maker(length: int = 256) -> list[Any]:
        q, k, v = (torch.randn(1, 8, size, 32) for size in (1, length, length))
        return [q, k, v, torch.arange(length) < 77]

    pair = Pair(query_on_the_right, maker(), "cpp", folder / "right.py")
    pair.call(maker)
    pair.call(lambda: maker(300))


def test_few_queries_of_many_heads_are_the_librarys_first() -> None:
    graph = capture(next_token, decoder(300, heads=8))

    assert [len(plan_of(graph, Settings(attention=value)).externs) for value in ("masked", "all")] == [2, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_few_queries_in_half_precision(dtype: torch.dtype, folder: Path) -> None:
    given = [tensor.to(dtype) for tensor in decoder(300)]
    pair = Pair(next_token, given, "cpp", folder / f"few_{dtype}.py")

    torch.testing.assert_close(pair.kernel(*given), next_token(*given), rtol=2e-2, atol=2e-2)
