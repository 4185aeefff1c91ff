"""The runner of the documents' examples notices documents that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import DocumentError, broken_links, examples, needs_spark, run

GOOD = """
Some words.

```python
x = 40
print("two lines")
print(x + 2)
```

Output:

```text
two lines
42
```

```python
y = x + 1
```

```text
not an output
```
"""


def check(text: str) -> None:
    run(examples(text, "page.md"), "page.md", {})


def test_a_right_document_passes() -> None:
    found = examples(GOOD, "page.md")
    assert [(e.line, e.output) for e in found] == [(5, "two lines\n42\n"), (18, None)]
    check(GOOD)


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("\n42\n", "\n43\n", r"page.md:5: the output differs(.|\n)*-43\n\+42"),
        ("two lines\n42", "two lines", r"page.md:5: the output differs"),
        ('print("two lines")', "pass", r"page.md:5: the output differs"),
        ("x + 1", "x + z", r"page.md:18: NameError"),
        ("y = x + 1", "\n\ny = x / 0", r"page.md:20: ZeroDivisionError"),
        ("```text\ntwo", "```console\ntwo", r"page.md:10: 'Output:' must stand between"),
        ("```text\nnot", "Output:\n```text\nnot", r"page.md:18: the output differs"),
        ("Some words.", "Output:", r"page.md:2: 'Output:' must stand between"),
    ],
)
def test_a_wrong_document_fails_at_its_line(right: str, wrong: str, complaint: str) -> None:
    assert right in GOOD
    with pytest.raises(DocumentError, match=complaint):
        check(GOOD.replace(right, wrong))


def test_a_block_that_is_not_python_at_all_fails() -> None:
    with pytest.raises(SyntaxError) as caught:
        check(GOOD.replace("y = x + 1", "y = = 1"))
    assert caught.value.lineno == 18


def test_blocks_within_longer_fences_are_text() -> None:
    assert examples(f"````markdown\n{GOOD}\n````\n", "page.md") == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("spark.range(3)", True),
        ("import mayfly\nmf = mayfly.Session()", True),
        ("from mayfly import Session", True),
        ("print('spark')", False),
        ("x = 1", False),
    ],
)
def test_examples_that_name_a_session_get_one(code: str, expected: bool) -> None:
    (found,) = examples(f"```python\n{code}\n```\n", "page.md")
    assert needs_spark(found) is expected


def test_links_to_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").touch()
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#part) [c](#part) [d](https://example.org/x)\n"
        "```text\n[e](in/code.md)\n```\n[f](gone.md#part)\n"
    )
    assert list(broken_links(page)) == ["gone.md#part"]
