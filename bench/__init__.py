"""Public benchmarks as they are: an adapter each, and what runs any of them; nothing of the benchmarks lies in here."""
