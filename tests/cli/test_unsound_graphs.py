"""Every command on graphs that are not sound: with --validate none edits go on, and no fault is one of the program."""

from __future__ import annotations

import pytest
from support.desk import Desk
from support.graphs import FLOAT, add, dtypes, func, function, graph_bytes, identity, library, node, placeholder

from gdsurgeon.wire.fields import encode_len

X, Z = placeholder("x"), identity("z", "y")
LISTS = {
    "texts": ["a"],
    "ints": encode_len(1, b"\x18\x01\x18\x02"),
    "floats": encode_len(1, b"\x25\x00\x00\x80\x3f"),
    "shapes": encode_len(1, encode_len(7, b"")),
    "nothing": b"",
    "a dtype": FLOAT,
}
CALL = node("y", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("F"))
ASTRAY = function("F", node("y", "Identity", ["q:z:9"], T=FLOAT), ret="u:v:0")
UNSOUND: dict[str, list[bytes]] = {
    **{f"IdentityN of {what}": [X, node("y", "IdentityN", ["x"], T=value), Z] for what, value in LISTS.items()},
    **{f"output of {what}": [X, node("y", "IdentityN", ["x"], T=value)] for what, value in LISTS.items()},
    "AddN of texts": [X, node("y", "AddN", ["x"], T=FLOAT, N=["a"]), Z],
    "constant of shapes": [node("x", "Const", dtype=FLOAT, value=LISTS["shapes"]), identity("y", "x"), Z],
    "no name": [X, node("", "Identity", ["x"], T=FLOAT), identity("y", "x"), Z],
    "caret": [X, node("^a", "Identity", ["x"], T=FLOAT), identity("y", "^a"), Z],
    "colon": [X, node("a:0", "Identity", ["x"], T=FLOAT), identity("y", "a:0"), Z],
    "dangling": [X, identity("y", "gone"), Z],
    "dangling and waiting": [X, node("y", "AddV2", ["gone", "x"], T=FLOAT), identity("z", "y", "^nobody")],
    "no such output": [X, identity("y", "x:7"), identity("z", "y:abc")],
    "cycle": [X, add("y", "x", "z"), Z],
    "two of one name": [X, identity("y", "x"), identity("y", "x"), Z],
    "no op": [X, encode_len(1, encode_len(1, b"y") + encode_len(3, b"x")), Z],
    "too few inputs": [X, node("y", "AddV2", ["x"], T=FLOAT), Z],
    "too many inputs": [X, node("y", "Identity", ["x", "x"], T=FLOAT), Z],
    "no attr": [X, node("y", "Identity", ["x"]), Z],
    "function astray": [X, CALL, Z, library(ASTRAY)],
    "two functions of one name": [X, CALL, Z, library(ASTRAY, ASTRAY)],
    "function without end": [X, CALL, Z, library(function("F", node("y", "F", ["x"]), ret="y:out:0"))],
    "no function": [X, CALL, Z],
}  # fmt: skip
QUESTIONS = ("inspect M --json", "select M --forward x", "select M --between x=z", "validate M --level structure")
EDITS = """
    rename M y=q
    rename M --rename-scope y=q
    rename M y=q --in F
    reroute M y=x
    reroute M --swap y=x
    fuse-ops M --node y --name K
    fuse-ops M --between x=z --name K
    clone-scope M y v
    remove M --node y --bypass
    remove M --forward y --allow-outputs
    remove M --node y --dangling placeholder
    extract M --outputs y
    extract M --outputs z --inputs y
    import M P --map x=z
    control-edges M --add y=x
    set-attr M y _k:int=3
    set-device M --clear
    set-shape M x=1,2
    freeze-input M x=1
    set-attr M y op=Neg
    add-preprocessing M P --map x=p,q
    add-postprocessing M P --map z=p,q
    inline M
""".strip().splitlines()


@pytest.mark.parametrize("records", UNSOUND.values(), ids=UNSOUND)
def test_no_command_fails_by_itself(desk: Desk, records: list[bytes]) -> None:
    desk.put("M", graph_bytes(*records))
    desk.put("P", graph_bytes(placeholder("p"), identity("q", "p")))
    lines = [*QUESTIONS, *(f"{line} --validate none -o out" for line in EDITS)]
    for line in lines:
        ran = desk.run(*line.split())
        assert ran.code in (0, 2, 3, 4), (line, ran)
        assert "internal error" not in ran.err
    assert desk.files()["M"] == graph_bytes(*records)
