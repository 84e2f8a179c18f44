"""A session's search graph: nodes, what is known of each, and what a fork inherits. Pure."""
