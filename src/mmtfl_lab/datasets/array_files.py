"""The files of the real datasets: where they are, how they are read, and where they come from."""

import os
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

Folder = str | os.PathLike[str] | None


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
        return f"{self.title}\n\n{self.notes}\n\nSource: {self.origin}\nTerms: {self.terms}"


@cache
def sources() -> dict[str, Source]:
    """Origin, contents and caveats of each file, read from sources.toml."""
    text = files("mmtfl_lab.datasets").joinpath("sources.toml").read_text(encoding="utf-8")
    return {file: Source(file, **texts) for file, texts in tomllib.loads(text).items()}


def data_folder(folder: Folder = None) -> Path:
    """Give the folder in which the loaders look for their files.

    Parameters
    ----------
    folder : str or path, default=None
        The folder itself. None: the one named by the environment variable ``MMTFL_DATA``, or else ``mmtfl``
        in the user's cache folder (``XDG_CACHE_HOME`` or the place usual on the platform), where the
        loaders also look for files that the first one does not hold.

    Returns
    -------
    pathlib.Path
        The folder, which need not exist.

    Examples
    --------
    >>> from mmtfl_lab.datasets import data_folder
    >>> data_folder("mydata").name
    'mydata'
    """
    given = folder if folder is not None else os.environ.get("MMTFL_DATA")
    return Path(given).expanduser() if given else _user_cache() / "mmtfl"


def data_path(file: str, folder: Folder = None) -> Path:
    """Path of a file of the loaders; where it should be put, if it does not exist."""
    path = data_folder(folder) / file
    cached = _user_cache() / "mmtfl" / file
    return cached if folder is None and cached.is_file() and not path.is_file() else path


def _user_cache() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"])
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def read_dataset(file: str, folder: Folder, names: str) -> Bunch:
    """Read the named arrays of a file as a dataset; Y is its y, and target_names are its task_names."""
    source, path = sources()[file], data_path(file, folder)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist. It should hold '{source.title}', which is not part of this package and "
            f"not downloaded. Get the original ({source.origin}), save the arrays {source.arrays} with "
            f"numpy.savez_compressed as {source.file}, and put the file into that folder; or name another "
            "folder by folder=... or the environment variable MMTFL_DATA."
        )
    try:
        # opened here, because numpy does not close a broken archive; nothing in it is executed (no pickle)
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            missing = [name for name in names.split() if name not in archive.files]
            if missing:
                raise ValueError(f"it has no array {', '.join(map(repr, missing))}")
            arrays = {name: archive[name] for name in names.split()}
    except (ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}. It should hold {source.arrays}.") from error
    return Bunch(
        y=arrays.pop("y", arrays.pop("Y", None)),
        task=arrays.pop("task", None),
        feature_names=strings(arrays.pop("feature_names", None)),
        task_names=strings(arrays.pop("task_names", arrays.pop("target_names", None))),
        DESCR=source.describe(),
        **arrays,
    )


def strings(names: Any) -> Any:
    """Names as plain strings; None stays."""
    return None if names is None else [str(name) for name in names]
