"""Wording that error messages, reports and plots share."""

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

MOST_NAMED = 6  # names that a sentence lists


def count(number: int, what: str, several: str | None = None) -> str:
    """Write a number of things: ``count(2, "row")`` is "2 rows"; an irregular plural is given."""
    return f"{number} {what}" if number == 1 else f"{number} {several or what + 's'}"


def count_tasks(number: int, column: str | None) -> str:
    """Write a number of tasks by the name of their column, if that is a word.

    Examples
    --------
    >>> from mmtfl.wording import count_tasks
    >>> count_tasks(8, "hospital"), count_tasks(3, "City"), count_tasks(1, "school_id"), count_tasks(2, "x7")
    ('8 hospitals', '3 cities', '1 school', "2 tasks ('x7')")
    """
    noun = task_noun(column)
    unnamed = column is None or noun != "task" or column.lower() in ("task", "tasks")
    return count(number, noun, plural(noun)) + ("" if unnamed else f" ({column!r})")


def not_finite_kind(value: float) -> str:
    """Name of a value that is not finite: NaN or infinity."""
    return "NaN" if math.isnan(value) else "infinity"


def show(names: Any, index: Any) -> str:
    """Write the label or name at an index as Python would, without numpy's type; None means no names.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.wording import show
    >>> show(np.array([7, 8]), 1), show(["age"], 0), show(None, 3)
    ('8', "'age'", '3')
    """
    if names is None:
        return str(index)
    name = names[index]
    return repr(name.item() if hasattr(name, "item") else name)


def abbreviate(names: Any) -> str:
    """List the first names or labels, and the number of all if there are more.

    Examples
    --------
    >>> from mmtfl.wording import abbreviate
    >>> abbreviate(["age", "dose"]), abbreviate(range(20))
    ("'age', 'dose'", '0, 1, 2, 3, 4, 5, ... (20 in all)')
    """
    listed = ", ".join(show(names, i) for i in range(min(len(names), MOST_NAMED)))
    return f"{listed}, ... ({len(names)} in all)" if len(names) > MOST_NAMED else listed


def suggest(name: Any, known: Sequence[Any], what: str = "columns") -> str:
    """End a sentence about an unknown name: suggest the closest known one, or list the known ones."""
    close = get_close_matches(str(name), map(str, known), n=1)
    return f": did you mean {close[0]!r}?" if close else f"; its {what} are {abbreviate(known)}."


def meant(labels: Sequence[Any], tasks: Any) -> str:
    """Ask whether an unknown label is a misspelt known one; empty if none looks like one."""
    for label in labels if tasks.dtype.kind == "U" else ():
        close = get_close_matches(str(label).strip(), tasks.tolist(), n=1)
        if close:
            return f" Is {str(label)!r} meant to be {close[0]!r}?"
    return ""


# -- what a task is called -----------------------------------------------------------------------------------


_IRREGULAR = {"child": "children", "genus": "genera", "mouse": "mice"}
_SAME = ("series", "species")


@cache
def _nouns() -> frozenset[str]:
    """Names of columns whose plural is English; of others nobody knows whether they are words."""
    return frozenset((files("mmtfl") / "nouns.txt").read_text(encoding="utf-8").split())


def task_noun(name: Any) -> str:
    """What a task is called: the name of its column, where that is a plain word, in the singular.

    Examples
    --------
    >>> from mmtfl.wording import task_noun
    >>> task_noun("hospital_id"), task_noun("Countries"), task_noun("jobRole"), task_noun("chist")
    ('hospital', 'country', 'job role', 'task')
    """
    plain = re.sub(r"[ _.]?(id|ID|Id|no|nr|code|name)$", "", str(name or ""))
    plain = re.sub("(?<=[a-z])(?=[A-Z][a-z])", " ", plain).lower()
    words = re.sub(r"[ _.]+", " ", plain).strip()
    first, space, last = words.rpartition(" ")
    noun = last if last in _nouns() else next((one for one in _nouns() if plural(one) == last), None)
    return "task" if noun is None or not re.fullmatch("[a-z]*", first) else first + space + noun


def plural(noun: str) -> str:
    """The plural of a noun.

    Examples
    --------
    >>> from mmtfl.wording import plural
    >>> plural("hospital"), plural("city"), plural("class"), plural("day"), plural("species")
    ('hospitals', 'cities', 'classes', 'days', 'species')
    """
    first, space, last = noun.rpartition(" ")
    if last in (*_IRREGULAR, *_SAME):
        return first + space + _IRREGULAR.get(last, last)
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|z|ch|sh)$", noun) else "s")


def with_article(noun: str) -> str:
    """A noun with its article.

    Examples
    --------
    >>> from mmtfl.wording import with_article
    >>> with_article("hospital"), with_article("industry"), with_article("university")
    ('a hospital', 'an industry', 'a university')
    """
    return f"{'an' if re.match('[aeio]|hour', noun) else 'a'} {noun}"


def noun_of_tasks(model: Any) -> tuple[str, str]:
    """What one task and several of a fitted model are called, after the column of their labels."""
    recipe = getattr(model, "recipe_", None)
    if getattr(model, "_predicts_matrix", False):
        return "target", "targets"
    noun = task_noun(getattr(recipe, "task_column", None) or getattr(model, "task_column", None))
    return noun, plural(noun)


def renamed(text: str, noun: tuple[str, str]) -> str:
    """Words of ours about tasks with what a task is called; what follows a bracket is a label, and stays.

    Examples
    --------
    >>> from mmtfl.wording import renamed
    >>> renamed("Tasks: one task (task 3)", ("city", "cities"))
    'Cities: one city (task 3)'
    """
    ours, bracket, label = text.partition(" (")
    for word, name in (("tasks", noun[1]), ("task", noun[0])):
        for old, new in ((word, name), (word.capitalize(), name.capitalize())):
            ours = re.sub(rf"\b{old}\b", new, ours)
    return ours + bracket + label
