"""What a person sees of a graph: its scopes, the blocks that it repeats, and how much is in each."""
