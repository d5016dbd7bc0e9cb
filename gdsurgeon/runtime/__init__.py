"""TensorFlow at arm's length: the library found and loaded, sessions, tensors, the worker process.

Knows nothing of edits. Callers use `gdsurgeon.runtime.client.Worker`; importing that imports neither
TensorFlow nor numpy.
"""
