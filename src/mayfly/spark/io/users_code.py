"""Classes of users' aggregates from Python files beside a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayfly.errors import InvalidSetting
from mayfly.pipeline.source_checks import python_file
from mayfly.plan.user_aggregates import AggregateDefinition, check_code
from mayfly.spark.io.sources import module_of

if TYPE_CHECKING:
    from mayfly.spark.api.session import Session


def loaded(session: Session, definition: AggregateDefinition) -> AggregateDefinition:
    """The aggregate with its class, if the session may run the files of its folder.

    The module stays outside those of this process, so that the class travels to Spark's workers
    as it is, with the functions of the run; no file has it.
    """
    file, name = python_file(f"the aggregate {definition.name}", definition.origin, session.python)
    try:
        code = getattr(module_of(file), name)
    except Exception as error:  # whatever the user's file raises
        raise InvalidSetting(
            f"there is no {definition.origin} for the aggregate {definition.name}: "
            f"{type(error).__name__}: {error}",
            f"define a class {name} in {file}, or import it there",
        ) from error
    check_code(definition.name, code)
    return definition.with_code(code)
