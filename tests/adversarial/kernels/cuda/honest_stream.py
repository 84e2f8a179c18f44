"""Control: a kernel that uses a second stream and joins it back."""

import torch

stream = torch.cuda.Stream()


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    out, half = torch.empty_like(x), x.shape[0] // 2
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        out[half:] = rmsnorm(x[half:], w)
    out[:half] = rmsnorm(x[:half], w)
    torch.cuda.current_stream().wait_stream(stream)
    return out
