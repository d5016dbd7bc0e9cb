"""What the files in the folder of a SavedModel are called."""

from __future__ import annotations

import os

GRAPH_FILE = "saved_model.pb"
TEXT_FILE = "saved_model.pbtxt"
FINGERPRINT = "fingerprint.pb"
VARIABLES = "variables"
CHECKPOINT = os.path.join(VARIABLES, "variables")
"""The prefix of the checkpoint."""
ASSETS = "assets"
