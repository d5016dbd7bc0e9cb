"""What a person reads: summaries and tables. Knows what to say, and not where it goes."""
