"""The description of the server for programs that read such: OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from mayfly.serving.http.media import ARROW, EVENTS, JSON

VERSION = "1"
"""Of what the paths take and give."""
TEXT = {"type": "string"}
NAME = {"name": "name", "in": "path", "required": True, "schema": TEXT}
AT = {
    "name": "at",
    "in": "query",
    "description": "The instant of the answer: 2026-03-01T09:00:30, or µs since 1970. By default "
    "the last closed one.",
    "schema": TEXT,
}


def _in_query(name: str, description: str, *, required: bool = False) -> dict[str, Any]:
    facts = {"name": name, "in": "query", "description": description, "schema": TEXT}
    return {**facts, "required": True} if required else facts


def _schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _responses(content: dict[str, Any], *refusals: str) -> dict[str, Any]:
    """The answer, and what every path may answer beside it."""
    always = ("400", "401", "403", "421", "422", "503")
    return {
        "200": {"description": "The answer.", "content": content},
        **{
            status: {"$ref": f"#/components/responses/{REFUSALS[status][0]}"}
            for status in sorted({*always, *refusals})
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


REFUSALS = {
    "400": ("Refused", "The request makes no sense; the message says why."),
    "401": ("Unauthorized", "The token is missing or wrong."),
    "403": ("OtherSite", "A page of another site has sent the request."),
    "404": ("NotThere", "The pipeline has no such query."),
    "408": ("TooSlow", "The request did not arrive in time."),
    "409": (
        "NotClosed",
        "The instant is not closed yet, or the answer is older than the query allows.",
    ),
    "410": ("Gone", "The instant is older than what is kept."),
    "421": ("OtherName", "The server is not called so."),
    "422": ("LimitExceeded", "A limit of the server: time, rows, bytes or memory."),
    "503": ("Unavailable", "Too many requests at once, or the checkpoint cannot be read."),
}
ANSWER = {**_json(_schema("Answer")), ARROW: {"schema": {"type": "string", "format": "binary"}}}
PATHS: dict[str, dict[str, dict[str, Any]]] = {
    "/": {
        "get": {
            "summary": "This list.",
            "responses": _responses({"text/html": {"schema": TEXT}}),
        }
    },
    "/query": {
        "get": {
            "summary": "SQL over views, relations and archives.",
            "parameters": [_in_query("sql", "SELECT …", required=True), AT],
            "responses": _responses(ANSWER, "409", "410"),
        },
        "post": {
            "summary": "SQL over views, relations and archives.",
            "parameters": [AT],
            "requestBody": {
                "required": True,
                "content": {"application/sql": {"schema": TEXT}, **_json(_schema("Question"))},
            },
            "responses": _responses(ANSWER, "408", "409", "410"),
        },
    },
    "/views": {
        "get": {
            "summary": "What there is to read, with columns.",
            "responses": _responses(_json(_schema("Tables"))),
        }
    },
    "/views/{name}": {
        "get": {
            "summary": "The answer of a query of the pipeline.",
            "description": "Further parameters are columns with the values that rows must have.",
            "parameters": [NAME, AT],
            "responses": _responses(ANSWER, "404", "409", "410"),
        }
    },
    "/changes/{name}": {
        "get": {
            "summary": "The changes of a query, as they are committed (server-sent events).",
            "parameters": [
                NAME,
                _in_query("since", "The first instant, or beginning; by default what comes now."),
                {
                    "name": "Last-Event-ID",
                    "in": "header",
                    "description": "The id of the last event that was read.",
                    "schema": TEXT,
                },
            ],
            "responses": _responses({EVENTS: {"schema": TEXT}}, "404", "410"),
        }
    },
    "/served": {
        "get": {
            "summary": "The served queries: how late they are, and what cannot be served.",
            "responses": _responses(_json({"type": "object"})),
        }
    },
    "/served/{name}": {
        "get": {
            "summary": "The last answer of a served query.",
            "parameters": [NAME],
            "responses": _responses(ANSWER, "404"),
        }
    },
    "/served/{name}/answers": {
        "get": {
            "summary": "The answers of a served query, as they are made (server-sent events).",
            "parameters": [NAME],
            "responses": _responses({EVENTS: {"schema": TEXT}}, "404"),
        }
    },
    "/advice": {
        "get": {
            "summary": "What a query would do to the load if it was served, by what was measured.",
            "parameters": [_in_query("sql", "SELECT … FROM s [RANGE … SLIDE …] …", required=True)],
            "responses": _responses(_json({"type": "object"})),
        }
    },
    "/ask": {
        "get": {
            "summary": "SQL over a window of a stream, from panes in memory if they answer it.",
            "parameters": [
                _in_query("sql", "SELECT … FROM s [RANGE …] …", required=True),
                _in_query("wait", "How long a younger answer is waited for: 5 seconds."),
            ],
            "responses": _responses(ANSWER, "409"),
        }
    },
    "/status": {
        "get": {
            "summary": "The pipeline in figures.",
            "responses": _responses(_json({"type": "object"})),
        }
    },
    "/plan": {
        "get": {
            "summary": "The plans of all queries, or of a one-time query.",
            "parameters": [_in_query("sql", "SELECT …")],
            "responses": _responses(_json(_schema("Plans"))),
        }
    },
    "/plan/{name}": {
        "get": {
            "summary": "The plan of a query of the pipeline.",
            "parameters": [NAME],
            "responses": _responses(_json(_schema("Plans")), "404"),
        }
    },
    "/openapi.json": {
        "get": {
            "summary": "This description for programs.",
            "responses": _responses(_json({"type": "object"})),
        }
    },
}
SCHEMAS = {
    "Answer": {
        "type": "object",
        "required": ["as_of", "as_of_micros", "partial", "version", "columns", "rows"],
        "properties": {
            "as_of": {**TEXT, "description": "The instant of the rows, in UTC."},
            "as_of_micros": {"type": "integer"},
            "partial": {
                "type": "array",
                "items": TEXT,
                "description": "Why rows may be missing; empty if none is.",
            },
            "version": {"type": "integer", "description": "Of the checkpoint."},
            "columns": {"type": "object", "additionalProperties": TEXT},
            "rows": {"type": "array", "items": {"type": "object"}},
        },
    },
    "Question": {
        "type": "object",
        "required": ["sql"],
        "properties": {"sql": TEXT, "at": {"type": ["string", "integer", "null"]}},
    },
    "Tables": {
        "type": "object",
        "required": ["version", "tables"],
        "properties": {"version": {"type": "integer"}, "tables": {"type": "object"}},
    },
    "Plans": {
        "type": "object",
        "properties": {"plan": TEXT, "sql": TEXT, "plans": {"type": "object"}},
    },
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["kind", "message", "hint"],
                "properties": {"kind": TEXT, "message": TEXT, "hint": TEXT},
            }
        },
    },
}


def description() -> dict[str, Any]:
    """The whole document."""
    refusals = {
        name: {"description": words, "content": _json(_schema("Error"))}
        for name, words in REFUSALS.values()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mayfly",
            "version": VERSION,
            "description": "What a pipeline answers. Every path reads, none writes.",
        },
        "paths": PATHS,
        "components": {
            "schemas": SCHEMAS,
            "responses": refusals,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
