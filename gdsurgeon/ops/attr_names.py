"""Names of attrs that mean the same whatever the op is."""

from __future__ import annotations

COLOCATION_ATTR = "_class"
"""With which nodes a node has to be, as strings."""
STATED_SHAPES = "_output_shapes"
"""The shapes of outputs, as programs note those that they inferred; TensorFlow refuses a graph where they are wrong."""
INPUT_SHAPES = "_input_shapes"
"""The shapes of the arguments of a function, likewise; the handle of a variable is a scalar there."""
ASIDE = frozenset((COLOCATION_ATTR, STATED_SHAPES))
"""Attrs that are no part of what is computed: names of other nodes, and what an exporter knew of shapes."""

FRAME_NAME = "frame_name"
"""What a while loop is called by the nodes that enter it."""
SHARED_NAME = "shared_name"
"""By which name a table, a queue or a variable is held; those that have one name are one."""
VAR_NAME = "var_name"
"""The same of a temporary variable."""
BY_NODE_NAME = "use_node_name_sharing"
"""Whether the name of the node is taken where there is no SHARED_NAME."""
