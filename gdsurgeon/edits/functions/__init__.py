"""What edits share that make, copy, merge or drop library functions."""
