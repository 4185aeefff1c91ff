"""The forms of EXPLAIN agree with each other, and the drawings stand on their own."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from mayfly.cql import catalog_after, parse
from mayfly.display import number, size
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.model import ExplainedOperator
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy
from tests.unit.physical.explain_cases import FOLDER, QUERIES, explanation

SVG = "{http://www.w3.org/2000/svg}"


def operators(value: dict[str, Any]) -> list[dict[str, Any]]:
    below = [operators(edge["operator"]) for edge in value["inputs"]]
    return [value, *(each for group in below for each in group)]


@pytest.mark.parametrize("name", QUERIES)
def test_every_form_shows_every_operator_and_pattern(name: str) -> None:
    explained = explanation(name)
    plan = explained.chosen.physical
    text, drawn = explained.text(), ElementTree.fromstring(explained.svg())
    names = sorted(operator.name for operator in plan.root.walk())
    (values,) = json.loads(explained.json())["plans"]
    assert sorted(each["name"] for each in operators(values["plan"])) == names
    boxes = [t.text for t in drawn.iter(f"{SVG}text") if t.get("class") == "name"]
    assert sorted(str(box) for box in boxes) == names
    for operator in plan.root.walk():
        assert operator.name in text
    for operator in list(plan.root.walk())[1:]:
        assert str(operator.label.pattern) in text


@pytest.mark.parametrize("name", QUERIES)
def test_edges_are_coloured_by_the_pattern_they_carry(name: str) -> None:
    plan = explanation(name).chosen.physical
    drawn = ElementTree.fromstring(explanation(name).svg())
    edges = [p.get("class") for p in drawn.iter(f"{SVG}path")]
    expected = [f"edge {each.label.pattern.name}" for each in list(plan.root.walk())[1:]]
    legend = [f"edge {kind}" for kind in ("MON", "WKS", "WK", "STR")]
    assert sorted(map(str, edges)) == sorted(expected + legend)


@pytest.mark.parametrize("name", QUERIES)
def test_boxes_do_not_overlap_and_lie_on_the_sheet(name: str) -> None:
    drawn = ElementTree.fromstring(explanation(name).svg())
    boxes = [
        tuple(float(rect.get(side) or 0) for side in ("x", "y", "width", "height"))
        for rect in drawn.iter(f"{SVG}rect")
        if rect.get("class") == "box"
    ]
    width, height = float(drawn.get("width") or 0), float(drawn.get("height") or 0)
    for place, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
        for x2, y2, w2, h2 in boxes[place + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


@pytest.mark.parametrize("name", QUERIES)
def test_drawings_load_nothing_from_elsewhere(name: str) -> None:
    for text in (explanation(name).html(), explanation(name).svg()):
        assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"<script|@import|url\(|src=|<link", text)
        assert "prefers-color-scheme:dark" in text


def test_texts_of_queries_cannot_break_the_page() -> None:
    explained = explanation("ftp_on_both")
    assert "'ftp'" not in re.sub(r"<pre>.*?</pre>", "", explained.svg())
    page = explained.html()
    assert "&#x27;ftp&#x27;" in page
    ElementTree.fromstring(explained.svg())


def test_a_notebook_gets_the_drawing() -> None:
    html = explanation("sources")._repr_html_()
    assert "<svg" in html
    assert "<html" not in html


def test_a_comparison_puts_all_candidates_side_by_side() -> None:
    explained = explanation("joined_without", compare=True)
    assert len(explained.plans) == 3
    assert explained.html().count("<svg") == 3
    text = explained.text()
    for plan in explained.plans:
        assert plan.title in text
        assert number(plan.physical.cost.total) in text
    assert len(json.loads(explained.json())["plans"]) == 3
    costs = [plan.physical.cost.total for plan in explained.plans]
    assert costs == sorted(costs)


def test_a_terminal_gets_colours_and_the_same_words() -> None:
    explained = explanation("joined_without")
    console = Console(force_terminal=True, width=200, color_system="standard", record=True)
    with console.capture() as shown:
        console.print(explained)
    assert "\x1b[" in shown.get()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.get())
    assert [line.rstrip() for line in plain.splitlines()][:20] == explained.text().splitlines()[:20]


def test_timings_are_shown_on_request_only() -> None:
    explained = explanation("joined_without")
    assert " ms)" not in explained.text()
    assert " ms)" in explained.text(timings=True)
    assert '"seconds"' not in explained.json()
    assert '"seconds"' in explained.json(timings=True)


def test_reasons_point_at_the_line_of_the_text() -> None:
    text = explanation("joined_without").text()
    assert "STR because of NOT EXISTS at line 30" in text


def test_figures_for_people() -> None:
    assert [number(each) for each in (0, 0.001, 0.25, 4.0, 4.25, 1234.5)] == [
        "0",
        "<0.01",
        "0.25",
        "4",
        "4.2",
        "1,234",
    ]
    assert [size(each) for each in (999, 1000, 2_500_000, 3e12)] == [
        "999 B",
        "1 kB",
        "2.5 MB",
        "3 TB",
    ]


def test_walks_are_parents_first() -> None:
    plan = explanation("chain").chosen.physical
    seen: list[ExplainedOperator] = list(plan.root.walk())
    assert seen[0] is plan.root
    assert [each.name for each in seen[:3]] == ["view", "Project", "Join"]


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("name", QUERIES)
def test_what_a_sink_is_told_is_what_it_gets(name: str, strategy: Strategy) -> None:
    """A sink must take rows back exactly where the program that runs has results it cuts."""
    text, query = (FOLDER / "queries.cql").read_text(), QUERIES[name]
    plan = optimize(query.plan, strategy=strategy).plan
    assert isinstance(plan, Output)
    program = compile_plan(plan, catalog_after(parse(text)), strategy)
    told = explanation(name, strategy).text()
    cuts = program.sent is None and program.answer.strict
    assert ("the end in cut" in told) == cuts
    assert ("needs no delete messages" in told) == (program.sent is None and not cuts)
