"""A result of the kind that Hugging Face's models return: a dictionary in order whose items are attributes, too.

Written after their behaviour, so that no test needs their library. Problems of tests hold this file's text.
"""

import dataclasses
from collections import OrderedDict

from torch.utils import _pytree


class ModelOutput(OrderedDict):
    """Fields that are not None are items; a number picks one of them."""

    def __init_subclass__(cls):
        """Tell PyTorch how it is taken apart."""
        _pytree.register_pytree_node(
            cls,
            lambda value: (list(value.values()), list(value)),
            lambda items, keys: cls(**dict(zip(keys, items, strict=True))),
        )

    def __post_init__(self):
        """Fields become items."""
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __getitem__(self, key):
        """By name or place."""
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]

    def __setitem__(self, key, value):
        """Items are attributes."""
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __reduce__(self):
        """Fields, attributes and items: every tensor three times."""
        kind, _, *rest = super().__reduce__()
        return kind, tuple(getattr(self, field.name) for field in dataclasses.fields(self)), *rest


@dataclasses.dataclass
class Output(ModelOutput):
    """What an encoder returns."""

    loss: object = None
    last_hidden_state: object = None
    hidden_states: object = None
