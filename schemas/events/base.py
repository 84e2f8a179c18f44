"""What every event is."""

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="tag"):
    """Something that happened, in the past tense. Each subclass names its tag, ``family.happened.v1``."""
