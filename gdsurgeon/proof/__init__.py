"""Runs graphs, and compares the results."""
