"""Patterns of nodes and their replacements: a rule language (one line per rule), rule files, and a rule catalog."""
