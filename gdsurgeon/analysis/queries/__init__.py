"""What `inspect` and the edits ask of a graph."""
