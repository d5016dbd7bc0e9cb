"""What clone-scope does for variables: which of a trainer's nodes it leaves out, and how the clone is saved."""
