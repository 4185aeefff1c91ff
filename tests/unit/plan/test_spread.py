"""Where rows are, said by columns: what stays true when columns get other names or rows meet."""

from __future__ import annotations

from mayfly.plan.spread import Spread

BY_A = Spread.by(["x.a"], ["y.a"])
BY_BOTH = Spread.by(["x.a", "x.b"], ["y.a", "y.b"])
NOWHERE = Spread()


def test_a_key_may_be_said_by_the_columns_of_either_side() -> None:
    assert BY_A.has(["x.a"])
    assert BY_A.has(["y.a"])
    assert BY_BOTH.has(["x.a", "y.b"])
    assert not BY_BOTH.has(["x.b", "x.a"])
    assert not BY_BOTH.has(["x.a"])
    assert not BY_A.has(["x.a", "x.b"])
    assert not BY_A.has([None])
    assert not BY_A.has([])
    assert not NOWHERE.has(["x.a"])


def test_a_key_with_a_part_that_is_no_column_says_nothing() -> None:
    assert Spread.by([None]) == NOWHERE
    assert Spread.by(["x.a", None]) == NOWHERE
    assert Spread.by([]) == NOWHERE
    assert Spread.by(["x.a", None], [None, "y.b"]).has(["x.a", "y.b"])


def test_rows_that_are_equal_in_more_columns_are_in_one_bucket() -> None:
    assert BY_A.within(["x.b", "y.a"]) == ("y.a",)
    assert BY_BOTH.within(["x.b", "x.a"]) == ("x.a", "x.b")
    assert BY_BOTH.within(["x.a", None]) == ()
    assert (BY_A | BY_BOTH).within(["x.b", "x.a"]) == ("x.a", "x.b")
    assert (BY_A | BY_BOTH).within(["x.a"]) == ("x.a",)
    assert NOWHERE.within(["x.a"]) == ()


def test_a_column_that_is_gone_says_nothing() -> None:
    assert BY_A.renamed([("x.a", "j.k"), ("x.a", "j.l")]) == Spread.by(["j.k"], ["j.l"])
    assert BY_BOTH.renamed([("x.a", "j.k")]) == NOWHERE
    assert BY_BOTH.only(["y.a", "y.b"]) == Spread.by(["y.a", "y.b"])


def test_of_two_inputs_only_what_holds_for_both_is_true() -> None:
    assert BY_A.common(Spread.by(["y.a"])) == Spread.by(["y.a"])
    assert BY_A.common(Spread.by(["z.a"])) == NOWHERE
    assert BY_A.common(BY_BOTH) == NOWHERE
    assert BY_A.common(NOWHERE) == NOWHERE
