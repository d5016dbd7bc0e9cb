"""Compares two graphs: an edit with its original by name (`comparison`), any two models by content (`diff`)."""
