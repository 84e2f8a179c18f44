"""What supervisor and children say to each other. Children's words are data to the supervisor, never trusted code."""
