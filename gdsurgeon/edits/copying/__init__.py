"""What edits share that copy nodes: fresh names, placeholders, second graphs."""
