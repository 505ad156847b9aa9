"""The figures of Table 2 as the paper prints them: mean and standard deviation of 15 splits."""

from __future__ import annotations

__all__ = ["printed"]

_COLUMNS = ("stl", "dmtl", "rmtfl", "mmtfl22", "mmtfl11", "mmtfl21", "mmtfl12")
_ROWS = {
    ("D1", 0.25): "0.40±0.02 0.60±0.02 0.58±0.02 0.64±0.02 0.54±0.03 0.73±0.02 0.42±0.04",
    ("D1", 0.33): "0.55±0.03 0.73±0.01 0.61±0.02 0.79±0.02 0.76±0.01 0.86±0.01 0.65±0.03",
    ("D1", 0.5): "0.60±0.02 0.75±0.01 0.66±0.01 0.86±0.01 0.88±0.01 0.90±0.01 0.84±0.01",
    ("D2", 0.25): "0.28±0.02 0.36±0.01 0.46±0.01 0.45±0.01 0.35±0.05 0.46±0.02 0.49±0.02",
    ("D2", 0.33): "0.35±0.01 0.42±0.02 0.63±0.03 0.69±0.02 0.75±0.01 0.67±0.03 0.83±0.02",
    ("D2", 0.5): "0.75±0.01 0.81±0.01 0.83±0.01 0.91±0 0.95±0 0.92±0.01 0.97±0",
    ("sarcos", 0.25): "0.78±0.02 0.90±0 0.90±0 0.89±0 0.89±0 0.90±0.01 0.87±0.01",
    ("sarcos", 0.33): "0.78±0.02 0.88±0.11 0.89±0.1 0.90±0 0.90±0 0.91±0.01 0.89±0.01",
    ("sarcos", 0.5): "0.83±0.06 0.87±0.1 0.89±0.1 0.91±0 0.90±0.01 0.91±0.01 0.89±0.01",
    ("usps", 0.25): "0.83±0.01 0.89±0.01 0.91±0.01 0.90±0.01 0.90±0.01 0.90±0.01 0.91±0.01",
    ("usps", 0.33): "0.84±0.02 0.90±0.01 0.90±0.01 0.89±0.01 0.90±0.01 0.90±0.01 0.91±0.01",
    ("usps", 0.5): "0.87±0.02 0.91±0.01 0.92±0.01 0.92±0.01 0.92±0.01 0.92±0.01 0.93±0.01",
}


def printed(dataset: str, fraction: float, method: str) -> tuple[float, float] | None:
    """Mean and standard deviation that the paper prints.

    Parameters
    ----------
    dataset, method : str
        Names on the command line.
    fraction : float
        Part of the data used for training.

    Returns
    -------
    (float, float) or None
        None where the paper has no such figure.

    Examples
    --------
    >>> from mmtfl_lab.paper.printed import printed
    >>> printed("D1", 0.33, "mmtfl21")
    (0.86, 0.01)
    >>> printed("school", 0.33, "mmtfl21") is None
    True
    """
    row = _ROWS.get((dataset, fraction))
    if row is None or method not in _COLUMNS:
        return None
    mean, deviation = row.split()[_COLUMNS.index(method)].split("±")
    return float(mean), float(deviation)
