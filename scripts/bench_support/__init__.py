"""The parts of scripts/bench.py: models, peers, measuring, rows, table.

What bench.py itself imports stays small (no numpy, no TensorFlow): a child's peak memory as the
system reports it is never below what the process that started it takes.
"""
