"""EXPLAIN as an SVG drawing: the answer on top, streams below, patterns as colours of the edges.

The drawing needs no font, script or image from elsewhere and follows the reader's light or dark
scheme. Each pattern also has its own dash and its name on the edge, so colour is never alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from mayfly.physical.explain.model import (
    Edge,
    ExplainedOperator,
    ExplainedState,
    PhysicalPlan,
    Place,
)
from mayfly.physical.explain.words import (
    PATTERN_MEANING,
    amount_words,
    escape,
    flow_words,
    place_words,
    state_words,
    structure_words,
)

STYLE = """
.mf{--ink:#1d2330;--soft:#5a6376;--paper:#fff;--box:#f5f6f9;--line:#c5cbd6;
--mon:#2b6cb0;--wks:#1a7f4e;--wk:#a15c00;--str:#c22f2f;color:var(--ink);background:var(--paper)}
@media (prefers-color-scheme:dark){.mf{--ink:#e9ecf2;--soft:#a6b0c3;--paper:#13161c;--box:#1d222b;
--line:#3c4554;--mon:#7fb2ee;--wks:#4fca8f;--wk:#e6b04a;--str:#ff8078}}
.mf text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:var(--ink)}
.mf .name{font:600 13px system-ui,sans-serif}.mf .soft{fill:var(--soft)}
.mf .box{fill:var(--box);stroke:var(--line)}.mf .edge{fill:none;stroke-width:2.5}
.mf .label{font-weight:700}.mf svg,svg.mf{max-width:100%;height:auto}
.mf .MON{stroke:var(--mon);stroke-dasharray:2 4}.mf text.MON{fill:var(--mon);stroke:none}
.mf .WKS{stroke:var(--wks)}.mf text.WKS{fill:var(--wks);stroke:none}
.mf .WK{stroke:var(--wk);stroke-dasharray:12 4}.mf text.WK{fill:var(--wk);stroke:none}
.mf .STR{stroke:var(--str);stroke-dasharray:6 3}.mf text.STR{fill:var(--str);stroke:none}
"""

WIDTH, GAP, RISE, PAD = 236, 24, 72, 10
LINE, CHARACTER = 15, 6.7
PORT = 20.0
NO_BREAK = "\u00a0"
LETTERS = int((WIDTH - 2 * PAD) / CHARACTER)


@dataclass
class _Box:
    """An operator with its lines of text and its place on the sheet."""

    operator: ExplainedOperator
    lines: list[tuple[str, str]]
    inputs: list[tuple[_Box, Edge]]
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> float:
        return 2 * PAD + 18 + LINE * len(self.lines)

    @property
    def spread(self) -> float:
        """The width of the subtree."""
        below = sum(box.spread for box, _ in self.inputs) + GAP * max(0, len(self.inputs) - 1)
        return max(WIDTH, below)


def drawing(plan: PhysicalPlan) -> str:
    """The plan as one self-contained SVG element."""
    root = _box(plan.root)
    tops = _levels(root, 0, {})
    _place(root, GAP, 0, tops)
    bottom = max(box.y + box.height for box in _walk(root))
    width, height = root.spread + 2 * GAP, bottom + 2 * GAP + 5 * LINE
    width = max(width, 3 * WIDTH)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mf" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">',
        "<title>Query plan with update patterns</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="var(--paper)"/>',
        *(
            _edge(box, below, edge, _port(place, len(box.inputs)))
            for box in _walk(root)
            for place, (below, edge) in enumerate(box.inputs)
        ),
        *(_card(box) for box in _walk(root)),
        _legend(bottom + GAP),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(operator: ExplainedOperator) -> _Box:
    lines = [(part, "") for part in _wrapped(operator.detail, 4)]
    if operator.place is not Place.ANSWER:
        lines += [(part, "soft") for part in _wrapped(place_words(operator), 2)]
        lines += [(part, "soft") for part in _wrapped(flow_words(operator), 2)]
    for state in operator.state:
        lines += [(part, "") for part in _wrapped("▤ " + _short(state), 3)]
    for working in operator.workings:
        lines += [(part, "") for part in _wrapped(f"∑ {working.what}: {working.structure}", 3)]
    inputs = [(_box(edge.source), edge) for edge in operator.inputs]
    return _Box(operator, lines, inputs)


def _short(state: ExplainedState) -> str:
    parts = [structure_words(state), *(word.replace(" ", NO_BREAK) for word in amount_words(state))]
    return f"{state.holds}: {', '.join(parts)}"


def _wrapped(text: str, most: int) -> list[str]:
    """The text in at most so many lines; the tooltip has the rest."""
    lines = wrap(text, LETTERS, break_long_words=True, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: LETTERS - 1] + "…"]
    return lines


def _cut(text: str) -> str:
    """A label beside an edge, no wider than the box below it."""
    most = LETTERS - int(PORT / CHARACTER)
    return text if len(text) <= most else text[: most - 1] + "…"


def _port(place: int, inputs: int) -> float:
    """Where on its lower side a box takes in an edge."""
    return PORT if inputs == 1 else WIDTH * (place + 1) / (inputs + 1)


def _levels(box: _Box, level: int, heights: dict[int, float]) -> dict[int, float]:
    """The height of the tallest box of each level."""
    heights[level] = max(heights.get(level, 0.0), box.height)
    for below, _ in box.inputs:
        _levels(below, level + 1, heights)
    return heights


def _place(box: _Box, left: float, level: int, heights: dict[int, float]) -> None:
    box.y = GAP + sum(heights[above] + RISE for above in range(level))
    box.x = left + (box.spread - WIDTH) / 2
    below_width = sum(b.spread for b, _ in box.inputs) + GAP * max(0, len(box.inputs) - 1)
    cursor = left + (box.spread - below_width) / 2
    for below, _ in box.inputs:
        _place(below, cursor, level + 1, heights)
        cursor += below.spread + GAP


def _walk(box: _Box) -> list[_Box]:
    return [box, *(inner for below, _ in box.inputs for inner in _walk(below))]


def _card(box: _Box) -> str:
    operator, x = box.operator, box.x + PAD
    tip = [f"{operator.name} {operator.detail}", str(operator.label), place_words(operator)]
    tip += [f"keeps {state_words(state)} – {state.reason}" for state in operator.state]
    tip += [
        f"{working.what} from {working.structure} – {working.reason}"
        for working in operator.workings
    ]
    texts = [
        f'<text x="{x:.1f}" y="{box.y + PAD + 28 + LINE * row:.1f}" class="{style}">'
        f"{escape(text)}</text>"
        for row, (text, style) in enumerate(box.lines)
    ]
    return "\n".join(
        [
            "<g>",
            f"<title>{escape(chr(10).join(tip))}</title>",
            f'<rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{WIDTH}" '
            f'height="{box.height:.1f}" rx="6"/>',
            f'<text class="name" x="{x:.1f}" y="{box.y + PAD + 11:.1f}">'
            f"{escape(operator.name)}</text>",
            *texts,
            "</g>",
        ]
    )


def _edge(above: _Box, below: _Box, edge: Edge, share: float) -> str:
    """A line from an input up to its reader, with its pattern and its exchange beside it."""
    label = below.operator.label
    x1, y1 = below.x + PORT, below.y
    x2, y2 = above.x + share, above.y + above.height
    words = [(str(label.pattern), f"label {label.pattern.name}")]
    if edge.exchange:
        words.append((_cut(f"⇄ {edge.exchange}"), "soft"))
    top = y1 - 8 - LINE * len(words)
    bend = min(top, y1 - RISE / 2)
    texts = [
        f'<text x="{x1 + 8:.1f}" y="{top + 11 + LINE * row:.1f}" class="{style}">'
        f"{escape(text)}</text>"
        for row, (text, style) in enumerate(words)
    ]
    return "\n".join(
        [
            f"<g><title>{escape(str(label))}</title>",
            f'<path class="edge {label.pattern.name}" d="M{x1:.1f},{y1:.1f} V{bend:.1f} '
            f'C{x1:.1f},{bend - 18:.1f} {x2:.1f},{bend + 4:.1f} {x2:.1f},{y2:.1f}"/>',
            *texts,
            "</g>",
        ]
    )


def _legend(top: float) -> str:
    """What the colours and dashes mean."""
    entries = []
    for row, (name, meaning) in enumerate(PATTERN_MEANING.items()):
        y = top + LINE * row + 10
        entries.append(
            f'<path class="edge {name}" d="M{GAP},{y - 4:.1f} h40"/>'
            f'<text x="{GAP + 50}" y="{y:.1f}" class="label {name}">{name}</text>'
            f'<text x="{GAP + 84}" y="{y:.1f}" class="soft">{meaning}</text>'
        )
    y = top + LINE * len(PATTERN_MEANING) + 10
    entries.append(
        f'<text x="{GAP}" y="{y:.1f}" class="soft">▤ state kept    ⇄ rows move between tasks</text>'
    )
    return "\n".join(entries)
