"""Gradients of ops, which need TensorFlow's Python."""
