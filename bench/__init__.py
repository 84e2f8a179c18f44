"""Public benchmarks as they are, one folder each; nothing of them lies in here."""
