"""Origin, contents and caveats of each real dataset; the texts are in sources.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Source:
    """One file of arrays: what it is, what is in it, and where the original comes from."""

    file: str
    title: str
    arrays: str
    origin: str
    terms: str
    notes: str

    def describe(self) -> str:
        """The text that goes with the loaded data."""
        return "\n".join([self.title, "", self.notes, "", f"Source: {self.origin}", f"Terms: {self.terms}"])


_TEXT = files("mmtfl.datasets").joinpath("sources.toml").read_text(encoding="utf-8")
SOURCES = {file: Source(file, **texts) for file, texts in tomllib.loads(_TEXT).items()}
