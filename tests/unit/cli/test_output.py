"""What commands print on terminals."""

from __future__ import annotations

import pytest

from mayfly.cli.output import aligned, print_table

HEADER, RIGHT = ("town", "described", "orders", "amount"), ("orders", "amount")
ROWS = [("Kiel", "a town by the sea with a canal", "17", "1276"), ("Bonn", "another", "8", "525")]


@pytest.mark.parametrize(("width", "is_drawn"), [(1, False), (36, False), (38, True), (100, True)])
def test_no_column_is_lost_where_the_terminal_is_narrow(
    width: int, is_drawn: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(HEADER, ROWS, RIGHT)
    shown = capsys.readouterr().out
    assert ("\N{BOX DRAWINGS LIGHT HORIZONTAL}" in shown) == is_drawn
    assert all(word in shown for word in ("Kiel", "Bonn", "another", "17", "1276", "525"))
    if not is_drawn:
        assert shown.splitlines() == list(aligned(HEADER, ROWS, RIGHT))
