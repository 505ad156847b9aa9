"""What the numbers were measured with: the processor and the versions."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import mmtfl

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "adelie", "skglm", "celer", "cvxpy", "clarabel")


def processor() -> str:
    """Name of the processor, as far as the system tells.

    Examples
    --------
    >>> from mmtfl_lab.bench.machine import processor
    >>> len(processor()) > 0
    True
    """
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.M) if cpuinfo.exists() else None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Python and the installed packages that take part."""
    found = {"mmtfl": mmtfl.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
