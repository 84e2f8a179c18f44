"""A CUDA C++ candidate without its loader, which the check puts in front of it."""
# ruff: noqa: F821

CUDA_SOURCE = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
extern "C" __global__ void __launch_bounds__(256) scale(const bf16* x, bf16* out, long long n, float by) {
  extern __shared__ float buffer[];
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  buffer[threadIdx.x] = i < n ? __bfloat162float(x[i]) : 0.0f;
  __syncthreads();
  if (i < n) out[i] = __float2bfloat16(buffer[threadIdx.x] * by);
}
"""
CUDA_FLAGS = ["-lineinfo"]


def kernel(x):
    out = torch.empty_like(x)
    blocks = (-(-x.numel() // 256),)
    _launch("scale", blocks, (256,), x, out, ctypes.c_longlong(x.numel()), 2.0, shared=64 << 10)
    return out
