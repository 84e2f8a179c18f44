"""Where candidates run: pools, platforms, languages, the evaluation harness."""
