"""Older forms of ops: what gives the same in a release that has not got an op, a family of rules a file."""
