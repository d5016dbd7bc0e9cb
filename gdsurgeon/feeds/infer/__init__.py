"""Infers the values that an input expects from its consumers."""
