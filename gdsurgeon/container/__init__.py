"""The forms in which models are shipped: what stands around a graph, as spans of its file."""
