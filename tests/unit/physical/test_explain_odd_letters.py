"""Literals that XML, HTML or UTF-8 cannot hold break no form of EXPLAIN."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from mayfly import LocalSession


@pytest.mark.parametrize("odd", ["\x00", "\x1b", "\ud800", "\uffff", '"', "<b>&"])
def test_every_form_can_be_read_and_stored(odd: str) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "STRING"})
    explanation = session.explain(f"SELECT x FROM s [RANGE 1 h] WHERE x = '{odd}'")
    ElementTree.fromstring(explanation.svg())
    page = explanation.html()
    assert "<b>&'" not in page
    assert "\x00" not in page
    for text in (page, explanation.text(), explanation.json()):
        text.encode()
    assert odd in json.loads(explanation.json())["query"]
