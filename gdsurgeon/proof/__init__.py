"""What was run, and what that shows."""
