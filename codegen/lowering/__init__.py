"""From a captured graph to loops: rewrites, regions, and what one element of each node is."""
