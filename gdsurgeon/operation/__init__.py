"""The whole operation: load, edit, prove, publish; and validate."""
