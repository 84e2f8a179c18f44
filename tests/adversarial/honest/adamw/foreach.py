"""Chunks of the tensors through PyTorch's foreach operators, in place on fresh copies."""

import torch

CHUNK = 1 << 16


@torch.no_grad()
def kernel(parameter, gradient, first, second):
    out = [tensor.clone(memory_format=torch.contiguous_format) for tensor in (parameter, first, second)]
    p, m, v = (list(tensor.view(-1).split(CHUNK)) for tensor in out)
    g = list(gradient.reshape(-1).split(CHUNK))
    torch._foreach_mul_(m, 0.9)
    torch._foreach_add_(m, g, alpha=1 - 0.9)
    torch._foreach_mul_(v, 0.95)
    torch._foreach_addcmul_(v, g, g, value=1 - 0.95)
    below = torch._foreach_div(v, 1 - 0.95**100)
    torch._foreach_sqrt_(below)
    torch._foreach_add_(below, 1e-8)
    torch._foreach_mul_(p, 1 - 1e-3 * 0.1)
    torch._foreach_addcdiv_(p, m, below, value=-1e-3 / (1 - 0.9**100))
    return tuple(out)
