"""What is run and what it proves: plans, feeds, claims, comparison."""
