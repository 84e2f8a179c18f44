"""Clocks: the timekeeper that stops and times a process, interleaved rounds, idle checks, statistics."""
