"""JSON as a page can hold it, of plain values."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["as_json"]

# characters that could end the element or the line that JSON stands in
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE)
