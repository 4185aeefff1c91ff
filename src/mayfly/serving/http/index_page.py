"""The page for people: what there is to read, and the paths for programs."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from mayfly.serving.http.openapi import PATHS

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.3rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:2rem}"
    "table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;"
    "border-bottom:1px solid #8884}code{white-space:nowrap}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}a{color:#8bf}}"
)


def index_page(pipeline: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """HTML; of tables their kind and columns, as /views tells them."""
    title = escape(f"Mayfly: {pipeline}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
        f"<h2>What there is</h2><table>{''.join(map(_entry, tables, tables.values()))}</table>"
        f"<h2>Paths</h2><table>{''.join(_paths())}</table></html>\n"
    )


def _entry(name: str, table: Mapping[str, Any]) -> str:
    places = {"view": "/views/", "log": "/changes/"}
    shown = escape(name)
    if (place := places.get(table["kind"])) is not None:
        shown = f'<a href="{place}{quote(name, safe="")}">{shown}</a>'
    columns = ", ".join(f"{column} {kind.upper()}" for column, kind in table["columns"].items())
    return f"<tr><td>{shown}</td><td>{escape(table['kind'])}</td><td>{escape(columns)}</td></tr>"


def _paths() -> list[str]:
    """Those that need nothing as links."""
    rows = []
    for path, methods in PATHS.items():
        for method, facts in methods.items():
            needs = any(parameter.get("required") for parameter in facts.get("parameters", ()))
            words = f"<code>{escape(f'{method.upper()} {path}')}</code>"
            shown = words if needs or method != "get" else f'<a href="{path}">{words}</a>'
            rows.append(f"<tr><td>{shown}</td><td>{escape(facts['summary'])}</td></tr>")
    return rows
