"""What is kept: the only folder that knows DuckDB."""
