"""Bytes and spans: scanning a serialised GraphDef, its sources, the span-copying writer, the atomic output."""
