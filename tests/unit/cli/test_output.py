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


@pytest.mark.parametrize("is_drawn", [True, False])
def test_values_are_shown_as_they_are(
    is_drawn: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No style is read from them, and none moves the cursor."""
    if is_drawn:
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    print_table(["[i]", "b"], [["[/x] [red]a :smile:", "two\nlines"], ["[null]", "\x1b[31mred"]])
    shown = capsys.readouterr().out
    for text in ("[i]", "[/x] [red]a :smile:", r"two\nlines", "[null]", r"\x1b[31mred"):
        assert text in shown
    assert ("\N{BOX DRAWINGS LIGHT HORIZONTAL}" in shown) == is_drawn


def test_columns_stand_below_each_other_in_all_scripts() -> None:
    rows = [("\u6771\u4eac", "1"), ("e\u0301", "22"), ("Kiel", "333")]
    assert list(aligned(("town", "n"), rows, ["n"])) == [
        "town    n", "\u6771\u4eac    1", "e\u0301      22", "Kiel  333",
    ]  # fmt: skip
