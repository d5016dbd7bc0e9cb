"""The functions that objects name are run without TensorFlow's Python package where only signatures changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import saved_models as shipped
from support.desk import Desk
from support.shipped import Shipped

from gdsurgeon.container.container import Container
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.proof.served import Loader
from gdsurgeon.wire.protos import message
from gdsurgeon.wire.write import read_chunks

pytestmark = [pytest.mark.tensorflow]

ASKED = 7


@pytest.fixture(autouse=True)
def no_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_arguments: object) -> None:
        raise NotValidatedError("tf.saved_model.load was asked", code="asked")

    monkeypatch.setattr(Loader, "ask", ask)


def renamed(desk: Desk, saved_models: Shipped, name: str, code: int) -> None:
    """Renames all signatures of the model NAME, and the inputs of one: their order is reversed."""
    definitions = message("tensorflow.SavedModel").FromString(
        (desk.folder / saved_models.path(name) / "saved_model.pb").read_bytes()
    ).meta_graphs[0].signature_def  # type: ignore[attr-defined]  # fmt: skip
    keys = [key for key in definitions if not key.startswith("__")]
    inputs = sorted(definitions[keys[0]].inputs)
    words = [word for at, one in enumerate(inputs) for word in ("--rename", f"{keys[0]}/{one}=new{9 - at}")]
    words += [word for key in keys for word in ("--rename", f"{key}=new_{key}")]
    ran = desk.run("signature", saved_models.path(name), *words, "-o", "out")
    assert ran.code == code, ran


@pytest.mark.parametrize("name", [name for name in shipped.OBJECTS if name != "keras_saved"])
def test_signatures_are_proven_without_the_loader(desk: Desk, saved_models: Shipped, name: str) -> None:
    renamed(desk, saved_models, name, 0)


def in_objects(change: Callable[[Any, Any], object]) -> Callable[[Any], None]:
    """A CHANGE of the concrete functions of the signatures, and of the objects for them."""

    def wrong(meta: Any) -> None:
        objects = meta.object_graph_def
        (served,) = [item for item in objects.nodes if item.user_object.identifier == "signature_map"]
        bare = objects.nodes[served.children[0].node_id].bare_concrete_function
        change(bare, objects.concrete_functions[bare.concrete_function_name])

    return wrong


def in_body(change: Callable[[Any], object]) -> Callable[[Any], None]:
    """A CHANGE of the function of the signature."""

    def wrong(meta: Any) -> None:
        def found(bare: Any, _: Any) -> None:
            (body,) = [f for f in meta.graph_def.library.function if f.signature.name == bare.concrete_function_name]
            change(body)

        in_objects(found)(meta)

    return wrong


def exchange(items: Any) -> None:
    items[:] = list(items)[::-1]


def wrong_shape(body: Any) -> None:
    shapes = body.node_def[0].attr["_output_shapes"].list.shape
    del shapes[:]
    shapes.add().dim.add(size=9)


MISTAKES = {
    "captures are exchanged": in_objects(lambda _, function: exchange(function.bound_inputs)),
    "a capture is missing": in_objects(lambda _, function: function.bound_inputs.pop()),
    "a capture is another object": in_objects(lambda _, function: function.bound_inputs.__setitem__(0, 0)),
    "a capture is no object": in_objects(lambda _, function: function.bound_inputs.__setitem__(0, 1000)),
    "inputs have other names": in_objects(lambda bare, _: bare.argument_keywords.__setitem__(0, "w")),
    "inputs are exchanged": in_objects(lambda bare, _: exchange(bare.argument_keywords)),
    "the specification lacks an input": in_objects(
        lambda bare, _: bare.function_spec.fullargspec.named_tuple_value.values.__delitem__(slice(None))
    ),
    "an input has another dtype": in_objects(
        lambda _, function: setattr(
            function.canonicalized_input_signature.tuple_value.values[1].dict_value.fields["z"].tensor_spec_value,
            "dtype", 3,
        )
    ),
    "an output has another name": in_objects(
        lambda _, function: function.output_signature.dict_value.fields["wrong"].SetInParent()
    ),
    "the function is missing": in_objects(lambda bare, _: setattr(bare, "concrete_function_name", "nowhere")),
    "a result is another tensor": in_body(
        lambda body: body.ret.__setitem__(next(iter(body.ret)), body.signature.input_arg[0].name)
    ),
    "a shape that cannot be": in_body(wrong_shape),
    "an argument too many": in_body(lambda body: body.signature.input_arg.add(name="more", type=1)),
}  # fmt: skip


def unfilled(meta: Any) -> None:
    for item in meta.object_graph_def.nodes:
        for child in item.children:
            child.local_name = {"_initialize": "_fill"}.get(child.local_name, child.local_name)


def test_a_table_that_nothing_fills_is_left_to_the_loader(
    desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MISTAKES, "unfilled", unfilled)
    check_not_accepted(desk, saved_models.path("table2"), monkeypatch, "unfilled", "serving_default=other")


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_never_accepted(
    desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    check_not_accepted(desk, saved_models.path("branches"), monkeypatch, name, "serving_default/x=z")


def check_not_accepted(desk: Desk, source: str, monkeypatch: pytest.MonkeyPatch, name: str, rename: str) -> None:
    """Writes what RENAME asks for with a mistake."""
    chunks = Container.chunks

    def wrong(self: Container, *arguments: Any) -> Any:
        saved = message("tensorflow.SavedModel").FromString(read_chunks(chunks(self, *arguments)))
        MISTAKES[name](saved.meta_graphs[0])  # type: ignore[attr-defined]
        return [saved.SerializeToString(deterministic=True)]

    monkeypatch.setattr(Container, "chunks", wrong)
    ran = desk.run("signature", source, "--rename", rename, "-o", "out")
    assert ran.code in (5, ASKED), ran
    assert not (desk.folder / "out").exists()
