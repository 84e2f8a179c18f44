"""What the shell offers on Tab: one file for each thing that has to be asked."""
