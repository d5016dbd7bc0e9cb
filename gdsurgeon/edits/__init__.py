"""The edits: plain functions from a graph to an `EditResult`; one a file, named like its command."""
