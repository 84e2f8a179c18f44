"""The playbook: C++ kernels from loop descriptions, without a network."""
