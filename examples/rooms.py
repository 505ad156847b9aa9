"""Draw the rooms of the package, docs/images/rooms.svg, for docs/architecture.md.

python examples/rooms.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

# from the top down: a room imports from the rooms below it
FLOORS = [
    ("What people use", [
        ("cli", "the command mmtfl: one module per subcommand"),
        ("report", "what a model says, in numbers and as an HTML page"),
        ("plots", "pictures of fitted models"),
        ("datasets", "simulated problems"),
    ]),
    ("Fit and predict", [
        ("estimators", "scikit-learn classes: fit, predict, save, searches"),
        ("model_selection", "folds over tasks, metrics, cross-validation"),
        ("inference", "levels of tasks, effects, words"),
    ]),
    ("Mathematics", [
        ("solvers", "from a problem to a Solution: row descent, Algorithm 1"),
        ("objective", "losses, penalties, the design: what is minimised"),
    ]),
    ("Data", [
        ("tables", "from a table on disk to arrays, and the recipe of it"),
        ("tasks", "what a task is: checked rows, labels, weights, stored tasks"),
        ("persistence", "files without pickle, and content hashes"),
    ]),
    ("Compiled", [
        ("core", "losses, row problems, storage, descent, paths, in Cython"),
    ]),
]  # fmt: skip
ENGINE_USERS = "solvers"  # the lowest room that may name an engine
BLUE, GREY, INK, PAPER = "#dbe9f6", "#eeeeee", "#1b1b1b", "#ffffff"
WIDTH, LEFT, ROOM_WIDTH, HEIGHT, GAP, MARGIN = 1000, 150, 570, 38, 6, 16


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A rectangle."""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="5" fill="{colour}" stroke="#7a8793"/>'


def text(x: float, y: float, words: str, *, size: int = 13, bold: bool = False, middle: bool = False) -> str:
    """A line of text."""
    style = f'font-size="{size}"' + ' font-weight="bold"' * bold + ' text-anchor="middle"' * middle
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def draw() -> str:
    """The picture as SVG."""
    parts = [box(LEFT, MARGIN, ROOM_WIDTH, HEIGHT, GREY)]
    parts.append(text(LEFT + 12, MARGIN + 24, "mmtfl_lab", bold=True))
    parts.append(text(LEFT + 140, MARGIN + 24, "the paper's experiments and the benchmark: a second package"))
    parts.append(text(MARGIN, MARGIN + 24, "Laboratory", bold=True))
    y, engine_end = MARGIN + HEIGHT + 18, 0
    top = y
    for floor, rooms in FLOORS:
        parts.append(text(MARGIN, y + 24, floor, bold=True))
        for name, purpose in rooms:
            parts.append(box(LEFT, y, ROOM_WIDTH, HEIGHT, BLUE))
            parts.append(text(LEFT + 12, y + 24, name, bold=True))
            parts.append(text(LEFT + 140, y + 24, purpose))
            y += HEIGHT + GAP
            engine_end = y - GAP if name == ENGINE_USERS else engine_end
        y += 12
    bottom = y - 12 - GAP
    parts += arrow(LEFT + ROOM_WIDTH + 22, top, bottom) + engines(top, engine_end)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + MARGIN}" width="{WIDTH}"'
    style = f'font-family="Helvetica, Arial, sans-serif" fill="{INK}"'
    paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return "\n".join([f"{head} {style}>", paper, *parts, "</svg>", ""])


def arrow(x: float, top: float, bottom: float) -> list[str]:
    """The way imports go."""
    line = f'<path d="M{x:g} {top:g} V{bottom - 8:g}" stroke="{INK}" stroke-width="2" fill="none"/>'
    tip = f'<path d="M{x - 6:g} {bottom - 10:g} h12 l-6 10 z" fill="{INK}"/>'
    place = f'transform="translate({x + 17:g} {0.5 * (top + bottom):g}) rotate(90)"'
    words = f'<text {place} font-size="13" text-anchor="middle">a room imports from rooms below it</text>'
    return [line, tip, words]


def engines(top: float, bottom: float) -> list[str]:
    """The engines, beside the rooms that are handed one."""
    x, width = LEFT + ROOM_WIDTH + 58, WIDTH - MARGIN - (LEFT + ROOM_WIDTH + 58)
    lines = [
        "where the tasks are kept", "and worked on: threads,", "files, a Dask cluster", "",
        "import nothing of ours;", "the answer has the same", "bits on every engine", "",
        "the rooms beside it", "may name an engine",
    ]  # fmt: skip
    middle = x + 0.5 * width
    parts = [
        box(x, top, width, bottom - top, BLUE),
        text(middle, top + 28, "engines", bold=True, middle=True),
    ]
    return [
        *parts,
        *(text(middle, top + 58 + 19 * i, line, middle=True) for i, line in enumerate(lines) if line),
    ]


if __name__ == "__main__":
    target = Path(__file__).resolve().parents[1] / "docs" / "images" / "rooms.svg"
    target.write_text(draw(), encoding="utf-8")
    print(f"Written: {target}")
