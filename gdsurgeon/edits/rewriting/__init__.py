"""The parts of rewrite: the search for matches, the conditions for a replacement, and the new nodes."""
