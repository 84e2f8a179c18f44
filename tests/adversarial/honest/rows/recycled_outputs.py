"""A small allocator of its own: memory of outputs that nobody holds any more is used for later ones."""

import torch

MOST = 8
given_out = []


def fresh(shape):
    for storage in given_out:
        if torch._C._storage_Use_Count(storage._cdata) == 1 and storage.nbytes() == 4 * shape.numel():
            return torch.empty(0).set_(storage, 0, shape)
    out = torch.empty(shape)
    given_out.append(out.untyped_storage())
    del given_out[:-MOST]
    return out


@torch.no_grad()
def kernel(x, w):
    out = fresh(x.shape)
    torch.mul(x, torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), out=out)
    return out.mul_(w)
