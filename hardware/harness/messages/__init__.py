"""Messages between supervisor and children. Children's messages are data to the supervisor, never trusted code."""
