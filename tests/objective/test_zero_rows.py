"""Large matrices of zeros take memory only where rows are written."""

import sys
from pathlib import Path

import pytest

from mmtfl.objective.row_sizes import zero_rows


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_a_written_row_takes_no_more_than_its_own_pages():
    A = zero_rows(20_000, 500)
    before = _resident()
    A[::200] = 1.0  # a hundred rows of 4 kB, of 80 MB
    A.any(axis=1)
    assert _resident() - before < 8e6


def _resident() -> float:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096.0
