"""gdsurgeon: edit a TensorFlow GraphDef, prove the edit by running it, then write it.

As a library::

    import gdsurgeon as gds

    graph = gds.load("model.pb")
    gds.rename(graph, [("image_tensor", "image")])
    graph.save("renamed.pb")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdsurgeon.registry import HOMES

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gdsurgeon.registry import *  # noqa: F403  # what is public stands there, for type checkers too
else:
    __all__ = sorted([*HOMES, "graph_editor"])

    def __getattr__(name: str) -> object:
        """Loads a name when it is first used: the command line imports this package for every call."""
        if name not in __all__:
            raise AttributeError(f"module 'gdsurgeon' has no attribute {name!r}")
        from importlib import import_module

        home = HOMES.get(name)
        return getattr(import_module(f"gdsurgeon.{home}"), name) if home else import_module(f"gdsurgeon.{name}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
