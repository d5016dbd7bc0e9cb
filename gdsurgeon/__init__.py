"""gdsurgeon: edit a TensorFlow GraphDef, prove the edit by running it, then write it.

As a library::

    import gdsurgeon as gds

    graph = gds.load("model.pb")
    gds.rename(graph, [("image_tensor", "image")])
    graph.save("renamed.pb")
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing takes longer to load than all of this, and the command line loads this first
if TYPE_CHECKING:
    from gdsurgeon.registry import *  # noqa: F403  # what is public stands there, for type checkers too
else:

    def __getattr__(name: str) -> object:
        """Loads a name when it is first used: the command line imports this package for every call."""
        from importlib import import_module

        from gdsurgeon.registry import HOMES, PACKAGES

        if name == "__all__":
            return sorted([*HOMES, *PACKAGES])
        if name not in PACKAGES and name not in HOMES:
            raise AttributeError(f"module 'gdsurgeon' has no attribute {name!r}")
        home = HOMES.get(name)
        return getattr(import_module(f"gdsurgeon.{home}"), name) if home else import_module(f"gdsurgeon.{name}")

    def __dir__() -> list[str]:
        return sorted([*__getattr__("__all__"), *(name for name in globals() if name.startswith("__"))])
