"""NumPy, in place in the tensors that the reference writes."""

import numpy as np


def kernel(parameter, gradient, first, second):
    p, g, m, v = (tensor.numpy() for tensor in (parameter, gradient, first, second))
    m *= np.float32(0.9)
    m += np.float32(0.1) * g
    v *= np.float32(0.99)
    v += np.float32(0.01) * g * g
    p -= np.float32(1e-3) * m / (np.sqrt(v) + np.float32(1e-6))
