"""Where things are that tests read."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
FIXTURES = ROOT / "fixtures"
MODELS = ROOT.parent / "shared" / "models"
"""Published graphs, where they are at hand."""
