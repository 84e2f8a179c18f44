"""Deciding what to try next."""
