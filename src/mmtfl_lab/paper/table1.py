"""Table 1: c in closed form, checked against a minimiser that knows no formula."""

from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from mmtfl.objective.row_sizes import alpha_from_gammas
from mmtfl_lab.markdown import markdown_table
from mmtfl_lab.paper.data_sets import generator

_N_ROWS = 200  # random rows per pair
_FORMULAS = {
    (2, 2): "sqrt(g1/g2) sqrt(sum b²)",
    (1, 1): "(g1/g2) sum abs(b)",
    (2, 1): "(g1/g2) sum b²",
    (1, 2): "sqrt(g1/g2) sqrt(sum abs(b))",
}


@dataclass(frozen=True)
class ClosedForm:
    """One pair (p, k): c and lambda by formula, relative to the numerical minimum over random rows.

    Attributes
    ----------
    p, k : int
        The pair.
    printed : str
        The paper's formula for c in terms of the tasks' parts.
    factor : float
        What the printed formula has to be multiplied by, (p/k)^(1/k).
    exact_error, printed_error : float
        Largest relative error of c by the exact and by the printed formula.
    exact_lambda_error, printed_lambda_error : float
        The same for the strength of the joint form.
    """

    p: int
    k: int
    printed: str
    factor: float
    exact_error: float
    printed_error: float
    exact_lambda_error: float
    printed_lambda_error: float

    def as_dict(self) -> dict:
        """Plain values."""
        return asdict(self)


def check_closed_forms(seed: int = 0) -> list[ClosedForm]:
    """Check the four pairs of Table 1 on random rows of coefficients and random strengths.

    The minimiser of g1 sum_t |a_t|^p / c^p + g2 c^k over c is found numerically; it gives the tasks' parts
    b = a / c, into which the formulas are put.

    Parameters
    ----------
    seed : int
        Of the random rows.

    Returns
    -------
    list of ClosedForm
        One for each pair.

    Examples
    --------
    >>> from mmtfl_lab.paper.table1 import check_closed_forms
    >>> forms = check_closed_forms()
    >>> [(form.p, form.k, form.exact_error < 1e-6, round(form.printed_error, 3)) for form in forms]
    [(2, 2, True, 0.0), (1, 1, True, 0.0), (2, 1, True, 0.5), (1, 2, True, 0.414)]
    """
    return [_check(p, k, seed) for p, k in _FORMULAS]


def _check(p: int, k: int, seed: int) -> ClosedForm:
    rng = generator("table1", seed, p, k)
    errors = []
    for _ in range(_N_ROWS):
        row = rng.standard_normal(rng.integers(1, 12))
        gamma1, gamma2 = np.exp(rng.uniform(-3.0, 3.0, 2))
        c, value = _minimum(float(np.sum(np.abs(row) ** p)), p, k, gamma1, gamma2)
        parts = float(np.sum(np.abs(row / c) ** p))
        by_printed = (gamma1 / gamma2 * parts) ** (1.0 / k)
        by_exact = (p * gamma1 / (k * gamma2) * parts) ** (1.0 / k)
        power = np.sum(np.abs(row) ** p) ** (k / (p + k))
        strengths = [
            float(alpha_from_gammas(gamma1, gamma2, p=p, k=k)),
            2.0 * gamma1 ** (k / (p + k)) * gamma2 ** (p / (p + k)),
        ]
        errors.append([by_exact / c, by_printed / c, *(strength * power / value for strength in strengths)])
    worst = np.abs(np.array(errors) - 1.0).max(axis=0)
    return ClosedForm(p, k, _FORMULAS[p, k], (p / k) ** (1.0 / k), *map(float, worst))


def _minimum(S: float, p: int, k: int, gamma1: float, gamma2: float) -> tuple[float, float]:
    """The best c and the value there, searched on a log scale, where the function is convex."""

    def value(log_c: float) -> float:
        return gamma1 * S * np.exp(-p * log_c) + gamma2 * np.exp(k * log_c)

    found = minimize_scalar(value, bracket=(-1.0, 1.0), tol=1e-12)
    return float(np.exp(found.x)), float(found.fun)


def to_markdown(forms: list[ClosedForm]) -> str:
    """The table, with what is off."""
    about = (
        f"c of a feature in terms of the tasks' parts b, against a numerical minimum over {_N_ROWS} random "
        "rows for each pair: the largest relative error."
    )
    errors = ("error, exact", "error, printed", "lambda, exact", "lambda, printed")
    rows = [
        (
            *(f"({form.p}, {form.k})", form.printed, f"{form.factor:.4g}", f"{form.exact_error:.0e}"),
            *(
                _share(form.printed_error),
                f"{form.exact_lambda_error:.0e}",
                _share(form.printed_lambda_error),
            ),
        )
        for form in forms
    ]
    table = markdown_table(("(p, k)", "c as printed", "exact: times", *errors), rows)
    return f"## Table 1\n\n{about}\n\n{table}\n"


def _share(error: float) -> str:
    return f"{100 * error:.1f} %" if error > 1e-6 else f"{error:.0e}"
