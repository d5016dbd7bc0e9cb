"""The parts of rewrite: matching, what may be replaced, what is put in its place."""
