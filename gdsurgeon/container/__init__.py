"""The file formats of models: the parts outside the graph, as spans of the file."""
