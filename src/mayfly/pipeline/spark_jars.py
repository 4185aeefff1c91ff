"""Sources that Spark reads only with a connector of its own: is one there, or asked for?

Decided from files and settings, before Spark is started. Where settings ask for jars or packages
of any kind, Spark itself tells whether the right one is among them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import RelationDefinition, StreamDefinition

PACKAGES = {
    "avro": ("spark-avro", "org.apache.spark:spark-avro_2.13:VERSION"),
    "kafka": ("spark-sql-kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION"),
    "delta": ("delta-spark", "io.delta:delta-spark_2.13:VERSION"),
}
"""Format → how the file of its connector begins, and how its package is called."""
_BRINGING = re.compile(r"spark\.(jars|jars\.packages|driver\.extraClassPath)\b|--(jars|packages)\b")


def check_connectors(
    definitions: Iterable[StreamDefinition | RelationDefinition], settings: Mapping[str, str]
) -> None:
    """Refuse sources whose connector is neither beside Spark's own jars nor asked for."""
    for definition in definitions:
        form = "" if definition.source is None else definition.source.format
        if form not in PACKAGES or _asks_for_jars(settings):
            continue
        file, package = PACKAGES[form]
        if not any(any(folder.glob(f"{file}*.jar")) for folder in _folders("jars")):
            raise InvalidSetting(
                f"the {definition.kind} {definition.name} reads {form}, which needs a connector "
                "that does not come with Spark",
                f"add --conf spark.jars.packages={package} with the version of your Spark",
            )


def _asks_for_jars(settings: Mapping[str, str]) -> bool:
    """Whether the command, the environment or Spark's own file of settings asks for jars."""
    texts = [*settings, os.environ.get("PYSPARK_SUBMIT_ARGS", "")]
    for folder in (*_folders("conf"), *map(Path, filter(None, [os.environ.get("SPARK_CONF_DIR")]))):
        with suppress(OSError):
            lines = (folder / "spark-defaults.conf").read_text(errors="replace").splitlines()
            texts += [line for line in lines if not line.lstrip().startswith("#")]
    return any(_BRINGING.search(text) for text in texts)


def _folders(name: str) -> list[Path]:
    """Folders of the Spark that will be started: the one that is named, or PySpark's own."""
    home, package = os.environ.get("SPARK_HOME"), find_spec("pyspark")
    roots = [Path(home)] if home else [Path(str(package.origin)).parent] if package else []
    return [root / name for root in roots]
