"""Walks over a graph as integers: order, reach, boundaries, loop frames."""
