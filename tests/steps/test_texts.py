"""Texts and records: base64, words, lines of CSV, tf.Examples, against Python's own."""

from __future__ import annotations

import base64
import csv
import io
from pathlib import Path

import numpy as np
import pytest
from support.graphs import Builder
from support.running import run
from support.stepping import built, execute, made, model, ops, png, refusal

import gdsurgeon as gds
from gdsurgeon.feeds.texts import example
from gdsurgeon.proof.executor import Refused
from gdsurgeon.runtime.tensor import from_numpy

WORDS = Path(__file__).with_name("words.txt")
LOOKUP = f"lookup(file='{WORDS}'"

# -- base64 ------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_base64_of_every_kind() -> None:
    contents = [bytes(range(256))[:length] for length in (0, 1, 2, 3, 4, 255, 256)] + [b"\xfb\xff\xfe"]
    spellings = {
        "standard": base64.b64encode,
        "web-safe": base64.urlsafe_b64encode,
        "without padding": lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
        "in lines": base64.encodebytes,
        "white space around": lambda data: b" \t\r\n" + base64.b64encode(data) + b" \n",
        "data URL": lambda data: b"data:image/png;base64," + base64.b64encode(data),
        "data URL of a kind": lambda data: b"data:text/plain;charset=utf-8;base64," + base64.urlsafe_b64encode(data),
    }
    graph = built("decode-base64", "string", (-1,))
    for spell in spellings.values():
        assert execute(graph, list(map(spell, contents))).tolist() == contents
    assert execute(graph, np.zeros(0, object)).shape == (0,)
    for wrong in (b"ab*d", b"a", b"YWI=YWI="):
        with pytest.raises(Refused):
            execute(graph, [wrong])


# -- words -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_words_become_numbers_by_a_table() -> None:
    m = model("int64", (-1,))
    for more, wanted in (("", [2, -1, 0, -1]), (", default=0, first=1", [3, 0, 1, 0])):
        pre = gds.steps.preprocessing(f"{LOOKUP}{more})", m)
        assert ops(pre) == ["Placeholder", "HashTableV2", "InitializeTableV2", "LookupTableFindV2", "Identity"]
        assert execute(pre, [b"sat", b"dog", b"the", b"The"]).tolist() == wanted
        assert execute(pre, np.zeros(0, object)).shape == (0,)


@pytest.mark.tensorflow
def test_the_first_call_fills_the_table() -> None:
    """Nothing has to be run before it, and two tables of the same words are one."""
    m = Builder()
    for name in ("a", "b"):
        m.placeholder(name, "int64", (-1,))
        m.node(f"{name}_out", "Identity", [name], T="int64")
    graph = m.graph("model.pb")
    for name in ("a", "b"):
        gds.add_preprocessing(graph, gds.steps.preprocessing(f"{LOOKUP})", graph, input=name))
    words = from_numpy(np.array([b"sat", b"dog"], object))
    with run.session(graph) as (executor, key):
        for _ in range(3):
            executor.wait(executor._worker.run(key, "out", {"a": words, "b": words}, ["a_out", "b_out"], []))
            assert [executor.tensor("out", place).numpy().tolist() for place in (0, 1)] == [[2, -1], [2, -1]]


@pytest.mark.tensorflow
def test_a_table_is_proven_in_front_of_a_model() -> None:
    m = model("int32", (-1, 2))
    pre = gds.steps.preprocessing(f"{LOOKUP}, default=7) | cast(int32)", m)
    proof = gds.prove(m.pristine(), m, gds.add_preprocessing(m, pre))
    assert proof.outputs and all(output.comparison is not None for output in proof.outputs)


def test_a_file_that_has_a_word_twice(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_bytes(b"a\n\n\nb")
    assert refusal(f"lookup('{path}')", "int64", (-1,)) == "lookup: '' occurs twice: word 2 and word 3"


def test_words_of_a_file_are_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_bytes(b"\xef\xbb\xbfa b\r\n\xc3\xa4\r\n\n")
    for steps in (f"lookup('{path}')", "lookup(words=['a b', ä])"):
        graph = built(steps, "int64", (-1,))
        keys = next(node.inputs[1].node for node in graph.nodes() if node.op == "InitializeTableV2")
        value = keys.attr("value")
        assert value is not None and list(value.tensor.string_val) == [b"a b", b"\xc3\xa4"]


def test_tables_of_other_words_have_other_names() -> None:
    texts = ("words=[a, b]", "words=[b, a]", "words=[a, b], first=1", "words=[a, b], default=7")
    tables = [
        next(node.attr("shared_name").s for node in built(f"lookup({text})", "int64", (-1,)).nodes()  # type: ignore[union-attr]
             if node.op == "HashTableV2")
        for text in texts
    ]  # fmt: skip
    assert len(set(tables)) == 3 and tables[0] == tables[3]


# -- lines -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_fields_are_those_of_pythons_csv() -> None:
    rows = [["a,b", 'say "x"', " c "], ["", "1e5", "ä"], ["\t", "2", "3"]]
    for delimiter, spelt in ((",", ""), (";", ", delimiter=';'"), ("\t", ", delimiter=tab"), ("|", ", delimiter='|'")):
        lines = []
        for row in rows:
            line = io.StringIO()
            csv.writer(line, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow(row)
            lines.append(line.getvalue().encode())  # ends in CR LF
        found = made(f"decode-csv(3, type=string, default=''{spelt})", lines, "string", (-1, 3))
        assert [[field.decode() for field in row] for row in found] == rows


@pytest.mark.tensorflow
def test_numbers_of_lines() -> None:
    lines = [b"1,-2.5,3e2,x", b'"4",5,,y\n', b"7,8,NA,z\r\n"]
    taken = "decode-csv(4, select=[2, 0], default=[-1, 0], na=NA)"
    assert made(taken, [*lines, b",1,2,x"], "float32", (-1, 2)).tolist() == [[300, 1], [-1, 4], [-1, 7], [2, 0]]
    assert made("decode-csv(4, select=1, type=float64)", lines, "float64", (-1, 1)).tolist() == [[-2.5], [5], [8]]
    assert made("decode-csv(4, select=[0, 0], type=int32)", lines, "int32", (-1, 2)).tolist() == [
        [1, 1],
        [4, 4],
        [7, 7],
    ]
    big = [b"9007199254740993"]
    assert made("decode-csv(1, type=int64)", big, "int64", (-1, 1)).tolist() == [[9007199254740993]]
    assert made("decode-csv(2) | divide(2)", b"1,3", "float32", (2,)).tolist() == [0.5, 1.5]
    assert made("decode-csv(2) | reshape([-1, 1, 2])", [b"1,3"], "float32", (-1, 1, 2)).tolist() == [[[1, 3]]]
    assert made("decode-csv(2)", b"1,3", "float32", (-1, 2), raw="string").tolist() == [[1, 3]]
    assert made("decode-csv(2)", np.zeros(0, object), "float32", (-1, 2)).shape == (0, 2)
    for wrong in (b"1,2,3", b"1,2,3,4,5", b"1,,3,4", b"one,2,3,4", b""):
        with pytest.raises(Refused):
            made("decode-csv(4, select=[0, 1])", [wrong], "float32", (-1, 2))


# -- examples ----------------------------------------------------------------------------------------------

EXAMPLES = [
    example({"a": [1.5, 2.0], "b": [3.0, 4.0], "n": [7], "s": [b"q"], "open": [1.0, 2.0, 3.0]}),
    example({"a": [5.0, 6.0], "b": [7.0, 8.0], "n": [1 << 60], "s": [b"\xff"], "open": [4.0]}),
]
PARSED = {
    "parse-example(a, shape=[2])": ("float32", (-1, 2), [[1.5, 2], [5, 6]]),
    "parse-example([b, a], shape=[2])": ("float32", (-1, 4), [[3, 4, 1.5, 2], [7, 8, 5, 6]]),
    "parse-example(b, shape=[1, 2])": ("float32", (-1, 1, 2), [[[3, 4]], [[7, 8]]]),
    "parse-example([b, a], shape=[1, 2])": ("float32", (-1, 1, 4), [[[3, 4, 1.5, 2]], [[7, 8, 5, 6]]]),
    "parse-example(n, type=int64)": ("int64", (-1,), [7, 1 << 60]),
    "parse-example([n, m], type=int64, default=-1)": ("int64", (-1, 2), [[7, -1], [1 << 60, -1]]),
    "parse-example(m, shape=[2], default=[1, 2])": ("float32", (-1, 2), [[1, 2], [1, 2]]),
    "parse-example(s, type=string)": ("string", (-1,), [b"q", b"\xff"]),
    "parse-example(t, type=string, default=none)": ("string", (-1,), [b"none", b"none"]),
    "parse-example(open, shape=[-1])": ("float32", (-1, -1), [[1, 2, 3], [4, 0, 0]]),
    "parse-example([open, n2], shape=[-1], default=-1)": ("float32", (-1, -1), [[1, 2, 3], [4, -1, -1]]),
    "parse-example(a, shape=[2]) | normalize(mean=[1, 2])": ("float32", (-1, 2), [[0.5, 0], [4, 4]]),
}


@pytest.mark.tensorflow
def test_examples_one_by_one_and_in_batches() -> None:
    for steps, (dtype, shape, wanted) in PARSED.items():
        assert made(steps, EXAMPLES, dtype, shape).tolist() == wanted
        if "open" not in steps:
            for one, row in zip(EXAMPLES, wanted, strict=True):
                assert made(steps, one, dtype, shape, raw="string").tolist() == [row]
                assert made(steps, one, dtype, shape[1:]).tolist() == row
            assert made(steps, np.zeros(0, object), dtype, shape).shape == (0, *shape[1:])
    for wrong in ("parse-example(a, shape=[3])", "parse-example(n, shape=[1])", "parse-example(missing, shape=[1])"):
        with pytest.raises(Refused):
            made(wrong, EXAMPLES, "float32", (-1, int(wrong[-3])))


@pytest.mark.tensorflow
def test_images_inside_of_examples() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    texts = [example({"image/encoded": [png(image + np.uint8(more))]}) for more in (0, 3)]
    steps = "parse-example(image/encoded, type=string) | decode-image | resize(2, 4, like=tf1, method=nearest)"
    assert (made(steps, texts, "uint8", (-1, 2, 4, 3)) == np.stack([image, image + np.uint8(3)])).all()
    assert (made(steps, texts[0], "uint8", (1, 2, 4, 3))[0] == image).all()


# -- what is refused ---------------------------------------------------------------------------------------


def test_a_step_that_decodes_says_what_comes_in_front_of_a_reshape() -> None:
    graph = built("decode-csv(6) | reshape([-1, 2, 3])", "float32", (-1, 2, 3))
    assert graph["x"].attr("dtype").type == 7  # type: ignore[union-attr]
    assert refusal("reshape([-1, 3]) | rescale(2)", "float32", (-1, 3)).startswith("reshape: the input shape cannot")
