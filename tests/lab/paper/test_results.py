"""Tables, verdicts, closed forms and the figure, from cells that are made up."""

import pytest

from mmtfl_lab.paper import table1, table2
from mmtfl_lab.paper.data_sets import load_pool
from mmtfl_lab.paper.experiments import draw_figure1, figure_cells
from mmtfl_lab.paper.protocol import Cell, Plan, Store
from mmtfl_lab.paper.results import Results, verdicts


def made_up(means, dataset="D1", repeats=3, fraction=0.33, **more):
    """Results whose scores are given, the splits one hundredth apart."""
    cells = {
        Cell(dataset, fraction, repeat, method): {
            "pooled": mean + 0.01 * (repeat - 1),
            "mean": mean - 0.1,
            "seconds": 1.0,
            "chosen": {"alpha": 0.5},
            "warnings": [],
            **more,
        }
        for method, mean in means.items()
        for repeat in range(repeats)
    }
    return Results(Plan([dataset], list(means), [fraction], repeats), cells)


def test_the_table_has_means_deviations_winners_and_the_printed_figures():
    text = table2.to_markdown(made_up({"stl": 0.6, "mmtfl21": 0.88}, support_f1=0.5))
    row = next(line for line in text.splitlines() if line.startswith("| D1 ("))
    assert "0.600 ± 0.010 [0.55, +0.05]" in row
    assert "**0.880** ± 0.010 [0.86, +0.02]" in row
    assert "| D1 | 33 % | 0.500 | 0.500 |" in text


@pytest.mark.parametrize(("own", "holds"), [(0.88, True), (0.5, False)])
def test_verdicts_tell_what_holds(own, holds):
    (found,) = verdicts(made_up({"stl": 0.6, "mmtfl21": own}))
    assert "MMTFL(2,1) first" in found.claim
    assert found.holds is holds
    assert f"{own:.3f}" in found.numbers


def test_verdicts_on_real_data_are_by_paired_differences():
    # one hundredth behind on every split: small beside the spread of the splits, and yet sure
    found = verdicts(made_up({"stl": 0.60, "mmtfl22": 0.59}, dataset="sarcos", fraction=0.5))
    assert [verdict.holds for verdict in found] == [False]
    assert "0.010" in found[0].numbers


def test_a_run_that_is_not_finished_is_judged_by_the_splits_it_has():
    results = made_up({"mmtfl22": 0.93, "mmtfl21": 0.92}, dataset="sarcos", fraction=0.25)
    del results.cells[Cell("sarcos", 0.25, 2, "mmtfl22")]
    first = verdicts(results)[0]
    assert "at least 0.91" in first.claim
    assert first.holds and "0.9250 by MMTFL(2,2)" in first.numbers


def test_auto_is_judged_against_the_best_member():
    members = {"mmtfl22": 0.5, "mmtfl11": 0.6, "mmtfl21": 0.7, "mmtfl12": 0.4}
    for auto, holds in ((0.695, True), (0.68, False)):
        found = verdicts(made_up({**members, "auto": auto}))
        (verdict,) = [v for v in found if "auto" in v.claim]
        assert verdict.holds is holds


def test_exact_closed_forms_hold_and_printed_ones_are_off_where_p_is_not_k():
    for form in table1.check_closed_forms(seed=3):
        assert form.exact_error < 1e-6
        assert form.exact_lambda_error < 1e-12
        same = form.p == form.k
        assert (form.printed_error < 1e-6) is same
        assert form.printed_lambda_error == pytest.approx(0.0 if same else 2 / 1.8899 - 1, abs=1e-4)


def test_the_figure_shows_the_truth_and_every_method(tmp_path):
    pytest.importorskip("matplotlib")
    plan = Plan(["D1"], ["stl", "mmtfl21"])
    store = Store(tmp_path / "run", plan.settings)
    store.open()
    coef = load_pool("D1", 0).coef
    assert len(figure_cells(plan)) == 2
    for cell in figure_cells(plan):
        store.write(cell, {"coef": coef.tolist(), "pooled": 0.5, "support_f1": 1.0})
    png, svg = draw_figure1(plan, store, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text(encoding="utf-8").count("<image") == 3 + 1  # and the colour bar


# -- the baseline ------------------------------------------------------------------------------------------
