"""Patterns of nodes and what takes their place: a language of one line a rule, rule files, and a book of rules."""
