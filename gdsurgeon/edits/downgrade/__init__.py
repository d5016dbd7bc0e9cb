"""Older forms of nodes, for releases of TensorFlow that lack the ops or attrs of today."""
