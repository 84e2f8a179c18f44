"""Calling what users wrote: state, gradients, timed batches, recorded graphs. Children's side."""
