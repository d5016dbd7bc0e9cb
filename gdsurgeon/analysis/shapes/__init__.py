"""Shapes without running: stated and inferred ones."""
