"""Fonts for the characters of names: others installed here step in for the usual one, and no box is drawn."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from mmtfl.errors import require

__all__ = ["drawable", "families"]

# fonts of boxes, and fonts whose characters are not where Unicode has them
_NOT_FOR_TEXT = ("Last Resort", "STIXNonUnicode", "STIXSize", "cm")


def drawable(letter: str) -> str:
    r"""A letter as it can be drawn: itself, or its number such as ``\u4e2d`` where no font has it."""
    if ord(letter) < 128 or _in_usual_fonts(letter) or _other_font(letter) is not None:
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def families(text: str) -> list[str]:
    """Font families for a text: the usual ones, then those that have the other letters."""
    others = (_other_font(letter) for letter in text if ord(letter) >= 128 and not _in_usual_fonts(letter))
    return [*_usual_families(), *dict.fromkeys(name for name in others if name is not None)]


def _usual_families() -> tuple[str, ...]:
    return tuple(require("matplotlib", "plots").rcParams["font.family"])


def _in_usual_fonts(letter: str) -> bool:
    manager = require("matplotlib.font_manager", "plots")
    wanted = manager.FontProperties(family=list(_usual_families()))
    return ord(letter) in _letters_of(manager.findfont(wanted))


@lru_cache(maxsize=4096)
def _other_font(letter: str) -> str | None:
    """The first installed font that has a letter, plain styles first."""
    manager = require("matplotlib.font_manager", "plots")
    entries = [entry for entry in manager.fontManager.ttflist if not entry.name.startswith(_NOT_FOR_TEXT)]
    entries.sort(key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.name))
    return next((entry.name for entry in entries if ord(letter) in _letters_of(entry.fname)), None)


@cache
def _letters_of(path: str) -> Any:
    """Numbers of the letters that a font file has; none if it cannot be drawn at any size."""
    font = require("matplotlib.ft2font", "plots")
    try:
        found = font.FT2Font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(found.get_charmap()) if found.scalable else frozenset()
