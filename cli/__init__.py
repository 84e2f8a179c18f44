"""Who asks: commands that parse, call and print."""
