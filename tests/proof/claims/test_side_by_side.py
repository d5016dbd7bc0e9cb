"""A proof rests on something."""

from __future__ import annotations

import pytest

from gdsurgeon.errors import NotValidatedError
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.same_outputs import something_compared


def test_where_nothing_was_compared_it_is_said_why() -> None:
    with pytest.raises(NotValidatedError) as error:
        something_compared(Proof("run"))
    assert error.value.code == "nothing-comparable"
