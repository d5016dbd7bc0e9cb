"""What an input wants, told by who reads it."""
