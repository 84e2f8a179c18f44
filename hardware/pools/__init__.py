"""Pools: the hardware that a search may use, one TOML file each, and their reader."""
