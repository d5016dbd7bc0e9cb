"""The passes of simplify, one a file, on a view of the graph."""
