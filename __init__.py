"""Kernelswarm finds faster kernels with a swarm of agents over an event log."""
