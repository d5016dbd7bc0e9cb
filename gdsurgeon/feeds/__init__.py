"""The values of the inputs of a graph for a run: the user's, and generated ones."""
