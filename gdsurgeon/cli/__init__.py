"""The command line: one command a file, shared options, no logic."""
