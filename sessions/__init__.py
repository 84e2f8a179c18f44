"""What users do with agents: search, resume, fork, seed, replay, compare, swarm."""
