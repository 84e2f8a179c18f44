"""Mean cross entropy of a language model's logits, with padding labels (-100) left out.

Source: the training loss of every causal language model; written as in the ``loss_utils`` of Hugging Face
Transformers, vocabulary of Llama 2 (32000).
"""

import torch
import torch.nn.functional as F

shapes = {
    "main": {"tokens": 512, "vocabulary": 32000},
    "ragged": {"tokens": 37, "vocabulary": 1000},
    "odd": {"tokens": 5, "vocabulary": 333},
    "binary": {"tokens": 129, "vocabulary": 2},
    "two_tokens": {"tokens": 2, "vocabulary": 8193},
}


def inputs(generator: torch.Generator, tokens: int, vocabulary: int) -> list[torch.Tensor]:
    logits = 2 * torch.randn(tokens, vocabulary, generator=generator)
    labels = torch.randint(0, vocabulary, (tokens,), generator=generator)
    padding = torch.rand(tokens, generator=generator) < 0.1
    # The mean over no token at all would be 0/0.
    padding[0] = False
    return [logits, labels.masked_fill(padding, -100)]


def reference(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels, ignore_index=-100)
