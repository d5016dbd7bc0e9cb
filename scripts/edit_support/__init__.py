"""The parts of the table of edits."""
