"""What this machine is, how fast it can be at best, and who may use it now."""
