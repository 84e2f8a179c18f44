"""How events travel: the only folder that knows NATS."""
