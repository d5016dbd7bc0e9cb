"""view on the published models: every form of every model, and what it says of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from support.paths import MODELS
from support.published import ABSENT

from gdsurgeon.cli.main import exit_code
from gdsurgeon.graph.graph import Graph
from gdsurgeon.view import content
from gdsurgeon.view.content import content_of
from gdsurgeon.view.outline import Outlines
from gdsurgeon.view.picture import FLAT, drawn
from gdsurgeon.view.tree import whole

pytestmark = [pytest.mark.models, pytest.mark.skipif(not MODELS.exists(), reason=ABSENT)]

BROKEN = {"dl4j_scatter_nd_update_locking_rank1shape_1indices.pb", "model_explorer_foo.pbtxt", "tfjs_iris_fused_raw.pb"}
"""Those with a structural fault: they are shown, and the exit code is 3."""


def models() -> list[Path]:
    found = sorted(MODELS.iterdir()) if MODELS.exists() else []
    return [path for path in found if path.suffix != ".md" and not path.name.endswith("_ckpt")]


@pytest.mark.parametrize("path", models(), ids=lambda path: path.name)
def test_every_form_of_every_model(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[Graph, content.Content]] = []  # the page is drawn from the graph that the command reads

    def remembered(graph: Graph, *arguments: Any) -> content.Content:
        read.append((graph, content_of(graph, *arguments)))
        return read[-1][1]

    monkeypatch.setattr(content, "content_of", remembered)
    code = 3 if path.name in BROKEN else 0
    assert exit_code(["view", str(path)]) == code
    tree = capsys.readouterr().out
    assert max(map(len, tree.splitlines())) <= 80
    assert 2 <= len(tree.splitlines()) <= 70
    ((graph, found),) = read
    assert found.title == path.name
    outlines = Outlines(graph, found)
    pictures = {form: drawn(form, outlines, whole(outlines), None) for form in ("html", *FLAT)}
    ET.fromstring(pictures["svg"].encode())
    assert len(pictures["html"].encode()) <= 150_000 + 20 * graph.node_count
    assert pictures["dot"].startswith("digraph") and "```mermaid" in pictures["md"]
