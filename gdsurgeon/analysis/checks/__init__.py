"""What TensorFlow would refuse, said without it."""
