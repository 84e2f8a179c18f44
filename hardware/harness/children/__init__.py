"""Programs of the forked processes: the fork server, and what each role does."""
