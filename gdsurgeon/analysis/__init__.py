"""What can be said of a graph without running it."""
