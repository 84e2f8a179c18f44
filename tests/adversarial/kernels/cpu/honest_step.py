"""Control: the same step, written otherwise."""


def kernel(parameter, gradient, first, second):
    first.lerp_(gradient, 0.1)
    second.mul_(0.99).add_(gradient * gradient, alpha=0.01)
    parameter.sub_(1e-3 * first / (second.sqrt() + 1e-6))
