"""The graph: nodes, outputs, names, attrs and constants over the spans of a source."""
