"""Processes that run what others wrote: how they are started, confined, spoken to and ended."""
