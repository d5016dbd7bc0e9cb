"""The names that the older libraries keep in their module ``match``."""

from __future__ import annotations

from gdsurgeon.graph_editor.matcher import NodeMatcher, TreeExpr, op_type

OpMatcher = NodeMatcher

__all__ = ["NodeMatcher", "OpMatcher", "TreeExpr", "op_type"]
