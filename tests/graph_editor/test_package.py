"""The names of the older libraries, and where they lead."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.errors import EditError
from gdsurgeon.graph_editor.util import WrongType

NAMES = {
    "edit": "detach_control_inputs detach_control_outputs detach_inputs detach_outputs detach connect bypass",
    "match": "op_type OpMatcher",
    "reroute": "swap_ts reroute_ts swap_inputs reroute_inputs swap_outputs reroute_outputs swap_ios reroute_ios "
    "remove_control_inputs add_control_inputs",
    "select": "can_be_regex make_regex filter_ts filter_ts_from_regex filter_ops filter_ops_by_optype "
    "filter_ops_from_regex get_name_scope_ops check_cios get_ops_ios compute_boundary_ts get_within_boundary_ops "
    "get_forward_walk_ops get_backward_walk_ops get_walks_intersection_ops get_walks_union_ops select_ops select_ts "
    "select_ops_and_ts",
    "subgraph": "SubGraphView make_view make_view_from_scope",
    "transform": "replace_t_with_placeholder_handler keep_t_if_possible_handler transform_op_if_inside_handler "
    "copy_op_handler transform_op_in_place Transformer TransformerInfo copy copy_with_input_replacements graph_replace",
    "util": "make_list_of_op make_list_of_t get_generating_ops get_consuming_ops ControlOutputs placeholder_name "
    "make_placeholder_from_tensor make_placeholder_from_dtype_and_shape make_const make_placeholder",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_in_its_module_and_at_the_top(module: str) -> None:
    home = getattr(ge, module)
    for name in NAMES[module].split():
        assert getattr(home, name) is getattr(ge, name)


def test_short_names() -> None:
    assert (ge.sgv, ge.sgv_scope) == (ge.make_view, ge.make_view_from_scope)
    assert (ge.ph, ge.ops, ge.ts) == (ge.make_placeholder_from_dtype_and_shape, ge.select_ops, ge.select_ts)


def test_all_that_is_promised_is_there() -> None:
    assert all(hasattr(ge, name) for name in ge.__all__)
    assert gds.graph_editor is ge


def test_the_table_names_what_there_is() -> None:
    assert ge.__doc__ is not None
    named = set(re.findall(r"\bgds\.(\w+)", ge.__doc__))
    assert {"reroute", "copy_in", "Subgraph", "NodeMatcher"} <= named
    assert all(hasattr(gds, name) for name in named)


@pytest.mark.parametrize(
    ("error", "kind"), [(ge.Refusal("no", hint="yes"), ValueError), (WrongType("list", "ab"), TypeError)]
)
def test_a_refusal_is_an_error_of_either_kind(error: EditError, kind: type[Exception]) -> None:
    assert isinstance(error, kind) and isinstance(error, EditError)
    assert error.exit_code == 4
    assert str(error) == "\n".join(filter(None, [error.message, error.hint]))


def test_it_is_loaded_when_it_is_first_used_and_needs_no_tensorflow() -> None:
    code = (
        "import sys, gdsurgeon as gds\n"
        "assert not any(name.startswith('gdsurgeon.graph_editor') for name in sys.modules)\n"
        "assert gds.graph_editor.sgv\n"
        "assert not {'tensorflow', 'numpy', 'click'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
