"""The sentence that matters in what Spark hands on; the texts are from real failures, shortened."""

from __future__ import annotations

import pytest

from mayfly.errors import BadInput
from mayfly.spark.cluster.causes import own_error, said

WORKER = """
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "mayfly/kernels/expression.py", line 48, in evaluate
    raise BadInput(
mayfly.errors.BadInput: cannot evaluate (1L div `s`.`v`): division by zero
  → guard the expression, use TRY_CAST, or cast its operands to a wider type

JVM stacktrace:
org.apache.spark.SparkException: Job aborted
"""


def test_an_error_of_ours_comes_back_as_it_was() -> None:
    found = own_error(Exception(WORKER))
    assert isinstance(found, BadInput)
    assert found.message == "cannot evaluate (1L div `s`.`v`): division by zero"
    assert found.hint.startswith("guard the expression")
    assert own_error(Exception("something else")) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "An error occurred while calling o72.load.\n: org.apache.spark.SparkClassNotFound"
            "Exception: [DATA_SOURCE_NOT_FOUND] Failed to find: delta\n\tat org.apache.X(Y:1)",
            "[DATA_SOURCE_NOT_FOUND] Failed to find: delta",
        ),
        (
            "An error occurred while calling o1.getResult.\n: org.apache.spark.SparkException: "
            "awaitResult: \n\tat a.B(C:1)\nCaused by: org.apache.spark.SparkException: [FAILED"
            "_READ_FILE] in r.csv\n\tat a.B(C:1)\nCaused by: a.b.C$D: malformed record: a,x",
            "malformed record: a,x",
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Invalid value "
            "'x' for option 'maxFilesPerTrigger' SQLSTATE: XXKST\n=== Streaming Query ===\n",
            "Invalid value 'x' for option 'maxFilesPerTrigger' SQLSTATE: XXKST",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "source.py", line 3, in read\n    raise ValueError("no")\nValueError: no\n\n'
            "JVM stacktrace:\na.b.C",
            "ValueError: no",
        ),
        ("", "Exception"),
    ],
)
def test_the_reason_is_told_without_what_is_around_it(text: str, sentence: str) -> None:
    assert said(Exception(text)) == sentence
