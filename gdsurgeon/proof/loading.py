"""Whether TensorFlow takes a graph, and what it means where it does not."""

from __future__ import annotations

from gdsurgeon.errors import NotValidatedError, ValidationError, printable
from gdsurgeon.proof.executor import Executor, Refused
from gdsurgeon.proof.trial import DO_WITHOUT, EDITED


def await_loaded(executor: Executor, key: str, what: str) -> None:
    """Waits until the graph KEY is loaded; WHAT says what it means that it is not.

    Raises:
        ValidationError: TensorFlow does not take it.
        NotValidatedError: this TensorFlow lacks an op.
    """
    try:
        executor.loaded(key)
    except Refused as refused:
        if "Op type not registered" in refused.text:
            raise NotValidatedError(
                f"this version of TensorFlow cannot run the graph: {printable(refused.text)}",
                code="does-not-load",
                advice=("custom-ops", "structure-only"),
            ) from refused
        # Of a result that does not load there is nothing to be had by not looking.
        raise ValidationError(
            f"{what}: {printable(refused.text)}", code="does-not-load", advice=() if key == EDITED else DO_WITHOUT
        ) from refused
