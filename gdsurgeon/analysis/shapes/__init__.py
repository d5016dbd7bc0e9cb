"""Shapes without running: what a graph states, and what follows from it."""
