"""Finds what TensorFlow would refuse, without using TensorFlow."""
