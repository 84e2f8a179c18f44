"""Captures a PyTorch function or module as a :class:`Graph`: ATen operators with symbolic shapes.

Runs in a child process that may import torch; nothing here imports it before :func:`capture` is called.
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..schemas import Graph, ProblemError
from .capture_convert import convert
from .capture_spelled import spelled
from .work import count_work

__all__ = ["capture", "count_work"]


def capture(target: Callable[..., Any], example_inputs: Sequence[Any], names: Sequence[str] | None = None) -> Graph:
    """Trace ``target(*example_inputs)`` into a graph whose sizes are symbols, without knowing which sizes may vary.

    Args:
        target: function or ``nn.Module`` (in the mode it is to run in).
        example_inputs: tensors and numbers at the main shape. Integers become symbols, other numbers are baked in.
        names: of the inputs; by default the signature's.

    Raises:
        ProblemError: neither ``make_fx`` nor ``torch.export`` can trace it; the message has both reasons.
    """
    inputs = list(example_inputs)
    labels = list(names) if names is not None else _names(target, len(inputs))
    # A reference that minds such `float` and `int` is traced with its own; what fails then, too, is reported below.
    with suppress(Exception):
        return _with_make_fx(target, inputs, labels, types=True)
    try:
        return _with_make_fx(target, inputs, labels, types=False)
    except Exception as first:  # noqa: BLE001 - any failure of tracing leads to the second tracer, and is reported
        try:
            return _with_export(target, inputs, labels)
        except Exception as second:  # noqa: BLE001
            raise ProblemError(
                f"cannot capture the reference: {_line(first)}; torch.export: {_line(second)}"
            ) from first


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def _names(target: Callable[..., Any], count: int) -> list[str]:
    function = getattr(target, "forward", target)
    parameters = list(inspect.signature(function).parameters)
    return [parameters[i] if i < len(parameters) else f"arg{i}" for i in range(count)]


def decompositions() -> dict[Any, Any]:
    """ATen operators that are taken apart, so that they can be fused; heavy ones with good kernels stay whole."""
    import torch
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    wanted = [
        "_softmax",
        "_log_softmax",
        "native_layer_norm",
        "native_group_norm",
        "gelu",
        "silu",
        "mish",
        "softplus",
        "hardswish",
        "hardsigmoid",
        "elu",
        "selu",
        "celu",
        "leaky_relu",
        "log_sigmoid_forward",
        "nll_loss_forward",
        "huber_loss",
        "smooth_l1_loss",
        "mse_loss",
        "l1_loss",
        "linalg_vector_norm",
        "norm",
        "addcmul",
        "addcdiv",
        "lerp",
        "logsumexp",
        "_native_batch_norm_legit_no_training",
        "_native_batch_norm_legit",
        "native_batch_norm",
        "_fused_rms_norm",
        "rms_norm",
        "logaddexp",
        "glu",
        "rsub",
        "xlogy",
        "hardtanh",
        "relu6",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "soft_margin_loss",
        "std",
        "std_mean",
        "var",
        "masked_fill",
        "threshold",
        "heaviside",
        "frac",
        "nan_to_num",
        "logit",
        "dist",
        "roll",
        "tril",
        "triu",
        "argmax_",
    ]
    found = [getattr(aten, name) for name in wanted if hasattr(aten, name)]
    table.update(get_decompositions(found))
    table[aten.native_group_norm.default] = _group_norm
    for op in list(table):
        if any(part in str(op) for part in _WHOLE):
            del table[op]
    return table


def _group_norm(
    x: Any, weight: Any, bias: Any, n: Any, c: Any, size: Any, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """Group norm in four dimensions throughout, so that the scale needs no other shape than the statistics."""
    import torch

    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    rows = wide.reshape(n, group, c // group, size)
    variance, mean = torch.var_mean(rows, dim=(2, 3), correction=0, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    result = (rows - mean) * scale
    if weight is not None:
        result = result * weight.reshape(1, group, c // group, 1)
    if bias is not None:
        result = result + bias.reshape(1, group, c // group, 1)
    return result.to(x.dtype).reshape(x.shape), mean.reshape(n, group), scale.reshape(n, group)


# Matrix products, attention and resampling have kernels that loops do not beat; random numbers must stay in order.
_WHOLE = (
    "scaled_dot_product", "convolution", "upsample", "grid_sampler", "rand", "bernoulli", "dropout", "addmm", "baddbmm",
    "repeat_interleave", "max_pool", "avg_pool", "_unsafe_index", "embedding_bag", "lstm", "gru", "rnn", "multinomial",
    "aten.mv.", "aten.var.", "aten.argmax", "aten.index_select",
)  # fmt: skip


def _with_make_fx(target: Callable[..., Any], inputs: list[Any], labels: list[str], *, types: bool) -> Graph:
    import torch
    from torch.fx.experimental import _config
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = [i for i, value in enumerate(inputs) if _is_traced(value)]

    def call(*values: Any) -> Any:
        full = list(inputs)
        for position, value in zip(traced, values, strict=True):
            full[position] = value
        return target(*full)

    def trace(function: Callable[..., Any]) -> Any:
        maker = make_fx(
            function, tracing_mode="symbolic", decomposition_table=decompositions(), _allow_non_fake_inputs=True
        )
        return maker(*[_detached(inputs[i]) for i in traced])

    with torch.no_grad(), _config.patch(use_duck_shape=False), spelled(target, types):
        traced_module = trace(call)
        if _mutates(traced_module):
            traced_module = trace(torch.func.functionalize(call, remove="mutations"))
    if _writes_unseen(traced_module):
        raise ProblemError("a composite operator of PyTorch writes into a tensor that is read under another name")
    return convert(traced_module, target, inputs, labels, traced)


def _detached(value: Any) -> Any:
    import torch

    return value.detach() if isinstance(value, torch.Tensor) else value


def _is_traced(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) or type(value) is int


def _mutates(module: Any) -> bool:
    return any(map(_is_mutation, module.graph.nodes))


def _is_mutation(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    return schema is not None and schema.is_mutable


def _writes_unseen(module: Any) -> bool:
    """Whether something is written in place that is not read from the write's own result alone."""
    writes = filter(_is_mutation, module.graph.nodes)
    return any(not node.users or len(node.args[0].users) > 1 for node in writes)


def _with_export(target: Callable[..., Any], inputs: list[Any], labels: list[str]) -> Graph:
    import torch

    module = target if isinstance(target, torch.nn.Module) else _module_of(target)
    auto = torch.export.Dim.AUTO
    dynamic = tuple(dict.fromkeys(range(v.ndim), auto) if isinstance(v, torch.Tensor) else None for v in inputs)
    with spelled(target, types=False):
        exported = torch.export.export(
            module, tuple(inputs), dynamic_shapes={"args": dynamic} if module is not target else dynamic
        )
    flat = exported.run_decompositions(decompositions()).module()
    traced = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    return convert(flat, module, inputs, labels, traced)


def _module_of(function: Callable[..., Any]) -> Any:
    import torch

    class Wrapper(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return Wrapper()
