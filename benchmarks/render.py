"""Documented figures, rendered from the recorded results and from nowhere else.

A document marks a place with ``<!-- figures: streaming -->`` … ``<!-- end of figures -->``; what
stands between is replaced. A test compares documents with what would be rendered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = (
    "README.md", "docs/archives.md", "docs/lifetimes.md", "docs/benchmarks.md", "docs/periodic.md"
)  # fmt: skip
SLOWER_PEERS = ("spark-rocksdb", "spark-rocksdb-v4")
"""Recorded each on its own, over fewer batches."""
_PLACE = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- end of figures -->)", re.S)


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _origin(result: dict[str, Any]) -> str:
    machine = result["machine"]
    load_average = machine["load_average"][0]
    others = sorted(_commits(result["results"]) - {result["commit"]})
    more = f" Some of it at {', '.join(f'`{one[:10]}`' for one in others)}." if others else ""
    return (
        f"Measured {result['when'][:10]} at commit `{result['commit'][:10]}` on {machine['cores']} "
        f"cores and {machine['memory_gib']:.0f} GiB; load average at the end {load_average:.1f}. "
        f"All repetitions: [benchmarks/results/{result['benchmark']}.json]"
        f"({{up}}benchmarks/results/{result['benchmark']}.json).{more}"
    )


def _commits(results: Any) -> set[str]:
    """The commits that results name which were not measured together."""
    if not isinstance(results, dict):
        return set()
    own = {results["commit"]} if "commit" in results else set()
    return own.union(*(_commits(one) for one in results.values()))


def streaming() -> str:
    result = load("streaming")
    if result is None:
        return "Not measured yet: `python -m benchmarks streaming`.\n"
    setting, runners = result["configuration"], dict(result["results"]["runners"])
    others = [load(f"streaming-{name}") for name in SLOWER_PEERS]
    for other in filter(None, others):
        runners.update(other["results"]["runners"])
    best = min(r["median_seconds"] for n, r in runners.items() if n.startswith("spark"))
    lines = [
        f"Two streams, {setting['window']} s windows, {setting['keys']:,} keys, "
        f"{setting['rows']:,} rows a side per batch, `local[2]`:",
        "",
        "| runner | median batch | rows a second | Spark's best ÷ this |",
        "|---|---:|---:|---:|",
    ]
    for name, one in runners.items():
        ratio = "" if name == "floor" else f"{best / one['median_seconds']:.1f}"
        label = {"floor": "(read, exchange, sort, write: no join)"}.get(name, name)
        lines.append(
            f"| {label} | {one['median_seconds']:.2f} s | {one['rows_per_second']:,.0f} | {ratio} |"
        )
    long, restart = load("streaming-long-window"), load("restart")
    extra = []
    if long:
        other = long["results"]["runners"]["mayfly"]["median_seconds"]
        short = runners["mayfly"]["median_seconds"]
        extra.append(
            f"With 1,000 s windows and {long['configuration']['keys']:,} keys (the same rate of "
            f"results) a batch takes {other:.2f} s, {other / short:.2f} times as long."
        )
    if restart:
        rows = restart["results"]["state"]["rows"]
        extra.append(
            f"A new process on {rows:,} rows of state commits its first batch after "
            f"{restart['results']['median']:.1f} s."
        )
    return "\n".join([*lines, "", *extra, "", _origin(result)]) + "\n"


def archive(name: str) -> Callable[[], str]:
    def render() -> str:
        result = load(name)
        if result is None:
            return f"Not measured yet: `python -m benchmarks {name}`.\n"
        setting = result["configuration"]
        lines = [
            f"{setting['live']:,} live rows of about 900 bytes, {setting['keys']:,} keys, "
            f"W = {setting['window']}, one day in and one out per update:",
            "",
            "| archive | update | probe p50 | probe p99 | scan | disk | DuckDB on the same files: "
            "probe, scan |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for label, one in result["results"].items():
            if "failed" in one:
                lines.append(f"| {label} | failed | | | | | |")
                continue
            same = ""
            if "duckdb_same_files_scan_median" in one:
                same = (
                    f"{one['duckdb_same_files_probe_p50_ms']:.1f} ms, "
                    f"{one['duckdb_same_files_scan_median']:.2f} s"
                )
            lines.append(
                f"| {label} | {one['update_median']:.2f} s | {one['probe_p50_ms']:.1f} ms | "
                f"{one['probe_p99_ms']:.1f} ms | {one['scan_median']:.2f} s | "
                f"{one['disk_bytes'] / 1e6:,.0f} MB | {same} |"
            )
        return "\n".join([*lines, "", _origin(result)]) + "\n"

    return render


def lifetimes(name: str) -> Callable[[], str]:
    def render() -> str:
        result = load(name)
        if result is None:
            return f"Not measured yet: `python -m benchmarks {name}`.\n"
        setting = result["configuration"]
        lines = [
            f"{setting['live']:,} live rows of about 900 bytes, {setting['keys']:,} keys, "
            f"lifetimes uniform up to {setting['rollover']} updates, a 36th of the rows in and "
            f"out per update, {setting['measured']} updates measured after the first roll-over:",
            "",
            "| archive | update: mean | slowest | median | written per update | probe p50 | "
            "probe p99 | scan | disk |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for label, one in result["results"].items():
            if "failed" in one:
                lines.append(f"| {label} | failed | | | | | | | |")
                continue
            lines.append(
                f"| {label} | {one['update_mean']:.2f} s | {max(one['update_seconds']):.2f} s | "
                f"{one['update_median']:.2f} s | "
                f"{one['bytes_written'] / 1e6:,.0f} MB | {one['probe_p50_ms']:.1f} ms | "
                f"{one['probe_p99_ms']:.1f} ms | {one['scan_median']:.2f} s | "
                f"{one['disk_bytes'] / 1e6:,.0f} MB |"
            )
        return "\n".join([*lines, "", _origin(result)]) + "\n"

    return render


def kernels() -> str:
    result = load("kernels")
    if result is None:
        return "Not measured yet: `python -m benchmarks kernels`.\n"
    setting, runners = result["configuration"], ("UPA", "NT", "DIRECT", "duckdb", "limit")
    lines = [
        f"Millions of input rows a second on one core, {setting['rows']:,} rows a batch, windows "
        "of ten batches (or 50,000 rows); DuckDB recomputes the answer after each batch; the limit "
        "is a bare compiled loop over the same rows:",
        "",
        "| operator | UPA | NT | DIRECT | DuckDB | limit | state of UPA, NT, DIRECT |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, figures in result["results"].items():
        rates = [f"{figures[one]['rows_per_second'] / 1e6:.2f}" for one in runners]
        state = [f"{figures[one]['state_bytes'] / 1e6:,.1f}" for one in runners[:3]]
        rates[-1] += f" ({figures['limit']['kind']})"
        lines.append(f"| {name} | {' | '.join(rates)} | {', '.join(state)} MB |")
    return "\n".join([*lines, "", _origin(result)]) + "\n"


def windows() -> str:
    result = load("windows")
    if result is None:
        return "Not measured yet: `python -m benchmarks windows`.\n"
    results = result["results"]
    names = list(dict.fromkeys(name for one in results.values() for name in one))
    lines = [
        "Millions of tuples a second into a full window of 100 basic windows, 100,000 tuples or "
        "(long) 1,000,000, values uniform, seconds of the processor on one core. H/100 and UH have "
        "100 buckets, G 50 groups. Empty: it would take minutes.",
        "",
        f"| | {' | '.join(results)} |",
        "|---" * (len(results) + 1) + "|",
    ]
    for name in names:
        cells = [
            f"{one[name]['tuples_per_second'] / 1e6:.3g}" if name in one else ""
            for one in results.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _origin(result)]) + "\n"


def window_queries() -> str:
    result = load("window-queries")
    if result is None:
        return "Not measured yet: `python -m benchmarks window-queries`.\n"
    setting, results = result["configuration"], result["results"]
    lines = [
        f"Millions of events a second (every row comes and goes) on one core, {setting['rows']:,} "
        "rows a batch, ten batches in the window, an answer at every instant:",
        *_rates("one group", results["one group"], ("query", "kernel")),
        "",
        "MIN and MAX, with early pruning and with every row kept:",
        *_rates("values", results["pruning"], ("whole", "pruned")),
    ]
    return "\n".join([*lines, "", _origin(result)]) + "\n"


def window_groups() -> str:
    records = [load(name) for name in ("window-groups", "window-groups-small-batches")]
    lines = [
        "Millions of events a second on one core, 100,000 groups, before and after aggregates kept "
        "counts by rank; a large group has 5,000 rows:"
    ]
    for result in records:
        if result is None:
            return "Not measured yet: `python -m benchmarks window-groups`.\n"
        for work, named in result["results"]["groups"].items():
            batches = len(next(iter(named.values()))["now"]["cpu_seconds"])
            lines += _rates(f"{work}, {batches} of them", named, ("before", "now"))
        lines += ["", _origin(result)]
    return "\n".join(lines) + "\n"


def _rates(title: str, named: Mapping[str, Any], ways: tuple[str, str]) -> list[str]:
    """A table of two rates, and how they compare."""
    first, second = ways
    lines = ["", f"| {title} | {first} | {second} | {second} ÷ {first} |", "|---|---:|---:|---:|"]
    for name, one in named.items():
        rates = [one[way]["events_per_second"] / 1e6 for way in ways]
        lines.append(f"| {name} | {rates[0]:.2f} | {rates[1]:.2f} | {rates[1] / rates[0]:.2f} |")
    return lines


def pipelines() -> str:
    result = load("pipelines")
    if result is None:
        return "Not measured yet: `python -m benchmarks pipelines`.\n"
    setting, found = result["configuration"], result["results"]
    lines = [
        f"{setting['rows']:,} rows a batch over all streams, {setting['seconds']} s of event time "
        "a batch, windows of 10 s, `local[2]`, every batch committed:",
        "",
        "| query | Mayfly: batch | rows a second | beside it, Spark's | batch | Spark ÷ Mayfly |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for name, runners in found.items():
        own = runners["mayfly"]
        line = f"| {name} | {own['median_seconds']:.2f} s | {own['rows_per_second']:,.0f} |"
        peers = {k: one for k, one in runners.items() if k != "mayfly"}
        for peer, one in peers.items():
            ratio = one["median_seconds"] / own["median_seconds"]
            line += f" {peer} | {one['median_seconds']:.2f} s | {ratio:.1f} |"
        lines.append(line if peers else f"{line} | | |")
    few = [found.get(f"{count} of ten queries") for count in (1, 10)]
    extra = []
    if all(few):
        one, ten = (each["mayfly"]["median_seconds"] for each in few if each)
        added = f"On average each query after the first adds {(ten - one) / 9 / one:.0%} of it."
        extra = [added, ""]
    return "\n".join([*lines, "", *extra, _origin(result)]) + "\n"


def flink() -> str:
    result = load("flink")
    if result is None:
        return "Not measured yet: `python -m benchmarks.flink` (needs a Python with Flink).\n"
    rates = {name: one["rows_per_second"] for name, one in result["results"].items()}
    return (
        f"The join of two streams, by formula: Mayfly {rates['mayfly']:,.0f} rows a second, Flink "
        f"SQL's interval join {rates['flink']:,.0f}: {rates['mayfly'] / rates['flink']:.2f} times. "
        "Mayfly reads files and commits every batch, Flink makes its rows in memory and keeps no "
        f"checkpoints.\n\n{_origin(result)}\n"
    )


def flink_forms() -> str:
    result = load("flink-forms")
    if result is None:
        return "Not measured yet: `python -m benchmarks.flink_forms` (needs a Python with Flink).\n"
    setting = result["configuration"]
    lines = [
        f"{setting['rows']:,} rows a batch of {setting['seconds']} s of event time, by formula; "
        "Mayfly reads files and commits every batch, Flink SQL makes its rows in memory and keeps "
        "no checkpoints:",
        "",
        "| query | Mayfly, rows a second | Flink, rows a second | Mayfly ÷ Flink |",
        "|---|---:|---:|---:|",
    ]
    for name, runners in result["results"].items():
        mine, other = (runners[who]["rows_per_second"] for who in ("mayfly", "flink"))
        lines.append(f"| {name} | {mine:,.0f} | {other:,.0f} | {mine / other:.1f} |")
    return "\n".join([*lines, "", _origin(result)]) + "\n"


def dataflows() -> str:
    result = load("dataflows")
    if result is None:
        return (
            "Not measured yet: `python -m benchmarks.dataflows` (needs a Python with Pathway and "
            "Bytewax).\n"
        )
    setting = result["configuration"]
    lines = [
        f"{setting['rows']:,} rows a batch over all streams, two cores, whole runs after warm-up. "
        "Mayfly commits every batch, the others keep nothing for a crash and read only the "
        f"first {setting['peer_batches']} of {setting['batches']} batches:",
        "",
        "| query | runner | rows a second | Mayfly ÷ this |",
        "|---|---|---:|---:|",
    ]
    for name, runners in result["results"].items():
        own = runners.get("mayfly")
        for runner, one in runners.items():
            rate, label = one["rows_per_second"], f"{runner} {one.get('version', '')}".strip()
            ratio = f"{own['rows_per_second'] / rate:.1f}" if own and one is not own else ""
            lines.append(f"| {name} | {label} | {rate:,.0f} | {ratio} |")
    return "\n".join([*lines, "", _origin(result)]) + "\n"


def periodic() -> str:
    result = load("periodic")
    if result is None:
        return "Not measured yet: `python -m benchmarks.periodic --help`.\n"
    setting, found = result["configuration"], dict(result["results"])
    figures = found.pop("summary")
    found.pop("checked")
    names = list(dict.fromkeys(runner for runners in found.values() for runner in runners))
    lines = [
        f"Median seconds of a batch, and the state kept. {setting['rows']:,} rows a batch, "
        f"{setting['seconds']} s of event time each, `local[2]`; eight groups of queries as in the "
        "thesis (8.5.1). *Ended*: not done after so many seconds. *Failed*: it did not start or "
        "stopped with an error. Empty: not measured.",
        "",
        f"| | {' | '.join(names)} |",
        "|---" + "|---:" * len(names) + "|",
    ]
    for name, runners in sorted(found.items(), key=lambda item: _periodic_order(item[0])):
        cells = [_periodic_cell(runners.get(runner, {})) for runner in names]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", *(f"- {name}: {figure:.2g}" for name, figure in figures.items())]
    return "\n".join([*lines, "", _origin(result)]) + "\n"


def _periodic_order(name: str) -> tuple[bool, list[int]]:
    """Numbers of queries first, then what is timed of one query, by size and ratio."""
    numbers = [int(digits.replace(",", "")) for digits in re.findall(r"[\d,]*\d", name)]
    return name.startswith("d/s"), numbers[::-1]


def _periodic_cell(run: Mapping[str, Any]) -> str:
    if "ended_after_seconds" in run:
        return f"ended, {run['ended_after_seconds']:.0f} s"
    if "failed" in run:
        return "failed"
    if "median_seconds" not in run:
        return ""
    state = run.get("state")
    kept = f", {state['bytes'] / 1e6:.1f} MB" if state else ""
    return f"{run['median_seconds']:.2f} s{kept}"


def served() -> str:
    result = load("served")
    if result is None:
        return "Not measured yet: `python -m benchmarks.served --record served`.\n"
    parts = result["results"]
    lines = []
    for part, words in (("low", "1.5"), ("high", "3")):
        if part in parts:
            about = parts[part]
            lines += [
                f"An update takes {1000 * about['update_seconds']:.1f} ms, what No-S does after it "
                f"{1000 * about['work_seconds']:.0f} ms; an update every "
                f"{1000 * about['interval_seconds']:.0f} ms, so No-S has {words} times the work:",
                "",
                "| schedule | executions per update | mean lateness, updates |",
                "|---|---:|---:|",
                *(
                    f"| {point['policy']} | {point['executions_per_update']:.1f} | "
                    f"{point['mean_lateness']:.2f} |"
                    for point in about["points"]
                ),
                "",
            ]
    if "isolation" in parts:
        lines += [
            f"An update every {1000 * parts['isolation']['interval_seconds']:.0f} ms, all queries "
            "always due:",
            "",
            "| isolation | answers a second | mean staleness, ms | aborted attempts |",
            "|---|---:|---:|---:|",
            *(
                f"| {point['isolation']} | {point['answers_per_second']:.0f} | "
                f"{1000 * point['mean_staleness']:.0f} | {100 * point['aborted_share']:.0f} % |"
                for point in parts["isolation"]["points"]
            ),
            "",
        ]
    return "\n".join([*lines, _origin(result)]) + "\n"


def serving() -> str:
    result = load("serving")
    if result is None:
        return "Not measured yet: `python -m benchmarks.serving --record serving`.\n"
    setting, parts = result["configuration"], result["results"]
    lines = []
    if "reads" in parts:
        lines = [
            f"A view of {setting['rows']:,} rows; one caller, one call after the other:",
            "",
            "| | row by key: p50 | p99 | a second | aggregate of all rows: p50 | a second |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for name, reads in parts["reads"]["figures"].items():
            point, whole = reads["point"], reads.get("aggregate")
            line = f"| {name} | {point['p50_ms']:.3f} ms | {point['p99_ms']:.3f} ms |"
            line += f" {point['per_second']:,.0f} |"
            rest = f" {whole['p50_ms']:.1f} ms | {whole['per_second']:,.1f} |" if whole else " | |"
            lines.append(line + rest)
        lines.append("")
    if "cost" in parts:
        figures = parts["cost"]["figures"]
        answers = figures["answers"] / len(figures["beside_a_reader_s"])
        lines += [
            f"A pipeline that is asked by key twenty times a second over HTTP ({answers:.0f} "
            f"answers while it runs) takes {figures['ratio']:.3f} times the CPU that it takes "
            "alone.",
            "",
        ]
    return "\n".join([*lines, _origin(result)]) + "\n"


RENDERERS: dict[str, Callable[[], str]] = {
    "streaming": streaming,
    "kernels": kernels,
    "windows": windows,
    "window-queries": window_queries,
    "window-groups": window_groups,
    "pipelines": pipelines,
    "flink": flink,
    "flink-forms": flink_forms,
    "dataflows": dataflows,
    "periodic": periodic,
    "served": served,
    "serving": serving,
    "archive-250k": archive("archive-250k"),
    "archive-2500k": archive("archive-2500k"),
    "lifetimes-250k": lifetimes("lifetimes-250k"),
    "lifetimes-2500k": lifetimes("lifetimes-2500k"),
}


def rendered(document: Path) -> str:
    """The document with every marked place filled from the recorded results."""
    up = "../" * (len(document.relative_to(ROOT).parts) - 1)

    def fill(place: re.Match[str]) -> str:
        return place[1] + RENDERERS[place[2]]().replace("{up}", up) + place[4]

    return _PLACE.sub(fill, document.read_text())


def render_documents() -> list[Path]:
    """Rewrite the documents that have marked places; those that changed."""
    changed = []
    for name in DOCUMENTS:
        path = ROOT / name
        if path.exists() and (text := rendered(path)) != path.read_text():
            path.write_text(text)
            changed.append(path.relative_to(ROOT))
    return changed


if __name__ == "__main__":
    for one in render_documents():
        print(one)
