"""The report: one HTML file that needs no other file and allows no other source of scripts or styles."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from mmtfl.errors import require
from mmtfl.persistence.files import check_target, write_text
from mmtfl.report.evaluation import evaluate
from mmtfl.report.page import make_page
from mmtfl.report.sentences import number

__all__ = ["render_report", "write_report"]

# characters that could end the element or the line that JSON stands in
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def write_report(
    model: Any,
    path: Any,
    *,
    data: tuple[Any, Any, Any] | None = None,
    title: str | None = None,
    source: dict[str, Any] | None = None,
) -> Path:
    """Write a fitted model as one HTML page.

    The page needs no network and asks for none. It tells how well the model predicts, task by task, beside
    one pooled model and separate models (where data is given); which features are shared; the map of all
    coefficients; how the strength was chosen; whether the solver converged; and what was run.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
    path : path-like
        The file, written whole or not at all; one that is there is replaced.
    data : (X, y, task), optional
        Rows to score the model on, as in ``score``; see `mmtfl.report.summary.evaluate`.
    title : str, optional
        Heading of the page; by default target and task column of the table that the model was fitted on
        ("stay, by hospital"), where it knows them.
    source : dict, optional
        Where the data comes from: "data" (its name) and "sha256". Equal to the hash in the model's
        ``provenance_``, the page says that the model was trained on these rows.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.report.html import write_report
    >>> data = make_tasks(n_tasks=3, n_samples=50, n_features=6, n_informative=2, noise=0.1, random_state=0)
    >>> model = MMTFLRegressor(p=2, k=1, alpha=0.1).fit(data.X, data.y, task=data.task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(model, os.path.join(folder, "report.html"))
    ...     path.name, path.read_text(encoding="utf-8")[:15]
    ('report.html', '<!doctype html>')
    """
    place = Path(path)
    check_target(place)  # before the work
    text = render_report(model, data=data, title=title, source=source)
    write_text(place, text)
    return place


def render_report(
    model: Any,
    *,
    data: tuple[Any, Any, Any] | None = None,
    title: str | None = None,
    source: dict[str, Any] | None = None,
) -> str:
    """Make the text of the page.

    Parameters
    ----------
    model, data, title, source
        As in `write_report`.

    Returns
    -------
    html : str
        The page.
    """
    require("jinja2", "report")
    evaluation = None if data is None else evaluate(model, *data, seen=_seen(model, source))
    return _render(make_page(model, evaluation, title=title, source=source))


def _seen(model: Any, source: dict[str, Any] | None) -> bool | None:
    """Whether the rows given are those the model was trained on, as far as their hashes say."""
    trained = (getattr(model, "provenance_", None) or {}).get("sha256")
    given = (source or {}).get("sha256")
    return None if trained is None or given is None else trained == given


def _render(page: dict[str, Any]) -> str:
    jinja2, markup = require("jinja2", "report"), require("markupsafe", "report")
    folder = files("mmtfl.report") / "templates"
    style, script = (_text(folder / name) for name in ("report.css", "report.js"))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_text(folder / "report.html.j2"))
    text = template.render(
        page=page,
        number=number,
        policy=_policy(style, script),
        style=markup.Markup(style),
        script=markup.Markup(script),
        data=markup.Markup(as_json(page["data"])),
    )
    # lone surrogates, which a name may hold, cannot be written as UTF-8
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _policy(style: str, script: str) -> str:
    """The content security policy: this style and this script by their hashes, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _text(resource: Any) -> str:
    # browsers hash what they have parsed, with plain line ends
    return resource.read_text(encoding="utf-8").replace("\r\n", "\n")


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE)
