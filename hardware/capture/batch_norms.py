"""Batch normalization with a cumulative average (``momentum=None``) for traces.

PyTorch makes a Python number of ``num_batches_tracked`` to weigh a batch; here the weight is a tensor.
"""

from collections.abc import Callable
from typing import Any


def cumulative(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """``plain``, the ``forward`` of batch normalization, for all momenta."""
    import torch

    def forward(self: Any, input: Any) -> Any:
        if self.momentum is not None or not self.training or self.num_batches_tracked is None:
            return plain(self, input)
        self._check_input_dim(input)
        running = (self.running_mean, self.running_var)
        # With a momentum of 1 these become the batch's own.
        mean, var = map(torch.zeros_like, running)
        result = torch.nn.functional.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            for average, batch in zip(running, (mean, var), strict=True):
                share = self.num_batches_tracked.to(average.dtype).reciprocal()
                average.mul_(1 - share).add_(batch * share)
        return result

    return forward
