"""How each claim of an edit is proven."""
