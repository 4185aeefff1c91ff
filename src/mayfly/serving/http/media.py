"""In which form an answer is sent, and an error."""

from __future__ import annotations

import json

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"


def accepted_media(accept: str | None) -> str:
    """Arrow if the client prefers it, else JSON.

    >>> accepted_media(None), accepted_media("*/*"), accepted_media("text/html, */*;q=0.8")
    ('application/json', 'application/json', 'application/json')
    >>> accepted_media("application/vnd.apache.arrow.stream, application/json;q=0.5")
    'application/vnd.apache.arrow.stream'
    """
    weights = {JSON: 0.0, ARROW: 0.0}
    for entry in (accept or "*/*").split(","):
        media, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight = next((_weight(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
        if media in weights:
            weights[media] = max(weights[media], weight)
    return ARROW if weights[ARROW] > weights[JSON] else JSON


def error_json(kind: str, message: str, hint: str) -> bytes:
    """An error as clients get it, from the server or from a worker."""
    value = {"error": {"kind": kind, "message": message, "hint": hint}}
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def _weight(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
