"""Mistakes in how claims are joined: each makes something right fail, or lets something wrong pass."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from support.mutants import Bench, check_share
from support.several import carried_out

from gdsurgeon.errors import ValidationError
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.pieces import joined_steps, result_of
from proof.test_joining import ROWS, WRONG, prove_row, prove_wrong


class Joining:
    """The joined claims of the edits of a row. They are proven if they differ from those of the first call."""

    def __init__(self, executor: Executor, name: str) -> None:
        self.prove = partial(prove_row if name in ROWS else self.refuse, executor, name)
        wrong = WRONG.get(name)
        spoils = {wrong.place: wrong.spoil} if wrong is not None else {}
        row = ROWS.get(name) or WRONG[name]
        self.steps = carried_out(row.model, row.edits, spoils, check=wrong is None)
        self.right: object = None

    @staticmethod
    def refuse(executor: Executor, name: str) -> None:
        with suppress(ValidationError):
            prove_wrong(executor, name)
            raise AssertionError(name)

    def __call__(self) -> bool:
        claimed = [result_of(piece).claims for piece in joined_steps(self.steps)]
        self.right = self.right or claimed
        if claimed != self.right:
            self.prove()
        return claimed == self.right


@pytest.mark.tensorflow
def test_mistakes_are_caught(executor: Executor) -> None:
    cases = {name: Joining(executor, name) for name in [*ROWS, *WRONG]}
    check_share(Bench(cases, tried=8, one_is_enough=True, seconds=1), "proof.pieces")
