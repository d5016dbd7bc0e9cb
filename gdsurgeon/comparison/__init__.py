"""Compares two graphs as graphs: their nodes, functions and other fields."""
