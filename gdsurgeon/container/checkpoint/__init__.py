"""TensorFlow's checkpoints: tensors by key, read, listed, verified, renamed and written without TensorFlow or NumPy."""
