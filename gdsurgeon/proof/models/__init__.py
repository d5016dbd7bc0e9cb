"""Whole models: compared, run, searched for where they diverge, reduced, profiled."""
