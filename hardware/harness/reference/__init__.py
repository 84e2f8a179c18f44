"""What is right: the reference problem, its float64 oracle, its error, and inputs on which it says something."""
