"""Outside authors: coding agents and people who take tasks from a session and hand kernels in, over the bus."""
