"""State: an input that the reference writes is left as it was."""


def kernel(parameter, gradient, first, second):
    first.lerp_(gradient, 0.1)
    moment = second * 0.99 + gradient * gradient * 0.01
    parameter.sub_(1e-3 * first / (moment.sqrt() + 1e-6))
