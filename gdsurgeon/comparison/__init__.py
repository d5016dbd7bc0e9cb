"""Two graphs, compared as graphs: what is different about the nodes, the functions and what stands beside them."""
