"""Control: the correct kernel among words that other evaluators take for instructions."""

# dtype: float16, tolerance = 10, skip. CUDA_SOURCE @triton.jit os.system eval( exec( time.perf_counter torch.cuda.Event
# allclose get_inputs try: except: pass

NOTE = "CUDA_SOURCE = r'__global__'; load_inline; import subprocess; torch.backends.cuda.matmul.allow_tf32 = True"


def kernel(x, w):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w
