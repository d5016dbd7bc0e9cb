"""Access to TensorFlow: finding and loading the library, sessions, tensors, the worker process.

Knows nothing of edits. Callers use `gdsurgeon.runtime.client.Worker`; importing that imports neither TensorFlow nor
numpy.
"""
