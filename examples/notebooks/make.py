"""Notebooks of two tutorials: `python examples/notebooks/make.py` writes them from examples/tutorials."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TUTORIALS = {"hospitals": "plot_1_hospitals.py", "people": "plot_2_people.py"}
INSTALL = "# In a checkout of mmtfl: pip install '.[cli]'\n%matplotlib inline"


def notebook(script: str) -> dict:
    """The notebook of a tutorial: text between code, as `# %%` divides them."""
    opening, rest = re.fullmatch(r'"""\n(.*?)"""\n(.*)', script, re.DOTALL).groups()
    cells = [_cell("markdown", _markdown(opening)), _cell("code", INSTALL)]
    for block in re.split(r"^# %%\n", rest, flags=re.MULTILINE):
        text, code = re.fullmatch(r"((?:#[^\n]*\n)*)(.*)", block, re.DOTALL).groups()
        cells.append(_cell("markdown", _markdown(re.sub(r"^# ?", "", text, flags=re.MULTILINE))))
        cells.append(_cell("code", code))
    numbered = [
        {"id": f"cell-{i}", **cell} for i, cell in enumerate(cell for cell in cells if cell["source"])
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, text: str) -> dict:
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, **more, "source": text.strip().splitlines(keepends=True)}


def _markdown(text: str) -> str:
    text = re.sub(r"^(.+)\n=+$", r"# \1", text, flags=re.MULTILINE)
    text = re.sub(r"^(.+)\n-+$", r"## \1", text, flags=re.MULTILINE)
    text = re.sub(r":doc:`([^<`]+?) </(\w+)>`", r"\1 (docs/\2.md)", text)
    return re.sub(r":doc:`/(\w+)`", r"docs/\1.md", text).replace("``", "`")


def main(folder: Path) -> None:
    """Write every notebook into a folder."""
    for name, file in TUTORIALS.items():
        script = (HERE.parent / "tutorials" / file).read_text(encoding="utf-8")
        text = json.dumps(notebook(script), indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
