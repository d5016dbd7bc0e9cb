"""What changed between two graphs: which node became which, names aside."""
