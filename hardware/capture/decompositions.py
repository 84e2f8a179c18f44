"""Which operators a capture takes apart, and which stay whole."""

from functools import cache
from typing import Any

_BACKWARD = (
    "_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm_backward", "native_group_norm_backward",
    "native_batch_norm_backward", "_fused_rms_norm_backward", "gelu_backward", "silu_backward", "mish_backward",
    "softplus_backward", "hardswish_backward", "hardsigmoid_backward", "elu_backward", "leaky_relu_backward",
    "log_sigmoid_backward", "hardtanh_backward", "threshold_backward", "sigmoid_backward", "tanh_backward",
    "glu_backward", "nll_loss_backward", "huber_loss_backward", "smooth_l1_loss_backward", "mse_loss_backward",
    "binary_cross_entropy_backward", "soft_margin_loss_backward", "logit_backward", "slice_backward",
    "select_backward", "diagonal_backward", "unfold_backward",
)  # fmt: skip
"""What autograd calls for the operators that are taken apart."""


def decompositions() -> dict[Any, Any]:
    """ATen operators that are taken apart, so that they can be fused; heavy ones with good kernels stay whole."""
    import torch

    return dict(_table(len(torch._C._dispatch_get_all_op_names())))


@cache
def _table(count: int) -> dict[Any, Any]:
    """Made once for ``count`` operators: torch goes through all of them, and a reference may register its own."""
    import torch
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    names = [
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
        "_native_batch_norm_legit_functional",
        "_batch_norm_with_update_functional",
        *_BACKWARD,
    ]
    operators = [getattr(aten, name) for name in names if hasattr(aten, name)]
    table.update(get_decompositions(operators))
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
    kept = x.dtype if weight is None else weight.dtype
    statistics = (value.reshape(n, group).to(kept) for value in (mean, scale))
    return result.to(x.dtype).reshape(x.shape), *statistics


# Matrix products, attention and resampling have kernels that loops do not beat; random numbers must stay in order. What
# is written into a part is a concatenation for the generator, and would be a mask over all of it for each step.
_WHOLE = (
    "scaled_dot_product", "convolution", "upsample", "grid_sampler", "rand", "bernoulli", "dropout", "addmm", "baddbmm",
    "repeat_interleave", "max_pool", "avg_pool", "_unsafe_index", "embedding_bag", "lstm", "gru", "rnn", "multinomial",
    "aten.mv.", "aten.var.", "aten.argmax", "aten.index_select", "select_scatter", "slice_scatter",
    "aten.index_add", "aten.index_copy", "aten.index_fill", "col2im",
)  # fmt: skip
