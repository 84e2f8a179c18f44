"""Turning a plan into a candidate."""
