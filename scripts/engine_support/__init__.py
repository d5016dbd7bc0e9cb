"""Programs with which scripts/make_engine_table.py queries engines; each program imports its engine."""
