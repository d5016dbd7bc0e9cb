"""What the inputs of a graph are fed: what was given, and what is made."""
