"""The right answers: the reference problem, its float64 oracle, its error, and valid inputs."""
