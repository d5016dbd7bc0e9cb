"""The passes of simplify, one a file, on a draft of the graph."""
