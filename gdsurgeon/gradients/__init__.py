"""Backward passes for frozen graphs: request, construction, memory."""
