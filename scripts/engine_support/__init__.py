"""What scripts/make_engine_table.py asks engines with: each of these programs runs where its engine can be imported."""
