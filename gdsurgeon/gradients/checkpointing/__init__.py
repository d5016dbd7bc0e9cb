"""What is kept and what is computed again, so that a backward pass fits in memory."""
