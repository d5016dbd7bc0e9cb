"""Facts about a graph for `inspect` and the edits."""
