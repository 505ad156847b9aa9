"""What `mmtfl cv --method` can fit: each method tuned by cross-validation, for numbers and for classes."""

from __future__ import annotations

from typing import Any

from mmtfl.cli.main import BadInput

TWO_STRENGTHS = {"dirty": "Dirty", "robust": "Robust", "lowrank": "LowRank", "capped": "Capped"}
_PAIRS = 10  # values of each of two strengths


def make_search(method: str, *, classify: bool, options: dict[str, Any], tuning: dict[str, Any]) -> Any:
    """The search of a method, not fitted yet.

    Parameters
    ----------
    method : str
        "mmtfl", "single", or one of TWO_STRENGTHS.
    classify : bool
        Whether targets are classes.
    options : dict
        Of the model itself: standardize, max_iter, tol and so on.
    tuning : dict
        pk, alphas (None by default), cv, scoring, selection, n_jobs and verbose.

    Returns
    -------
    search : estimator
        With `fit`.
    """
    import mmtfl

    kind = "Classifier" if classify else "Regressor"
    given = {name: value for name, value in tuning.items() if value is not None}
    if method not in TWO_STRENGTHS:
        single = {"p": 1} if method == "single" else {}
        return getattr(mmtfl, f"{'SingleTask' if single else 'MMTFL'}{kind}CV")(**single, **given, **options)
    model = getattr(mmtfl, f"{TWO_STRENGTHS[method]}{kind}")(**options)
    kept = {name: given[name] for name in ("cv", "scoring", "n_jobs") if name in given}
    return mmtfl.TwoStrengthCV(model, strengths=given.get("alphas", _PAIRS), **kept)


def check_method(
    method: str, *, pk: Any = None, alphas: Any = None, one_se: bool = False, scale: Any = None
) -> None:
    """Refuse options that do not go with a method."""
    if method == "mmtfl":
        return
    apart = {
        "--pk": pk is not None,
        "--dask": scale is not None and scale.dask is not None,
        "--checkpoint": scale is not None and scale.checkpoint is not None,
    }
    if method in TWO_STRENGTHS:
        apart["--one-se"] = one_se
        if isinstance(alphas, list):
            raise BadInput(
                f"--method {method} has two strengths: --alphas takes how many of each are tried, such as 10."
            )
    wrong = next((name for name, given in apart.items() if given), None)
    if wrong is not None:
        others = "mmtfl and single" if wrong == "--one-se" else "mmtfl"
        raise BadInput(f"{wrong} does not go with --method {method}: it is for {others} only.")
