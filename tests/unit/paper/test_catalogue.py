"""The experiments as data: the published grids, names, and where the published numbers find their cells."""

from __future__ import annotations

import pytest

from replaystats_paper import find_experiments, load_catalogue
from replaystats_paper.measures import _records, published_record
from replaystats_paper.rerun import STUDIES

CATALOGUE = load_catalogue()


def test_the_grids_have_their_published_sizes():
    sizes = {name: len(experiment.cells) for name, experiment in CATALOGUE.items()}
    for algorithm in ("lstd", "phibe1", "phibe2"):
        assert sizes[f"variance-{algorithm}"] == sizes[f"rmse-{algorithm}"] == 36
        assert sizes[f"value-{algorithm}"] == 1
    assert sum(sizes[f"variance-kernel-b{b}"] for b in (25, 50, 100)) == sizes["rmse-kernel"] == 36
    assert sizes["variance-boston"] == sizes["rmse-boston"] == 36


def test_the_value_figures_have_the_cells_of_their_captions():
    cells = {name: CATALOGUE[name].cells[0] for name in ("value-lstd", "value-phibe2", "value-phibe1")}
    assert [(c["n"], c["B"], c["k"]) for c in cells.values()] == [
        (5000, 1000, 1500),
        (5000, 500, 1500),
        (5000, 500, 2500),
    ]


def test_every_published_record_belongs_to_a_cell():
    found = set()
    for experiment in CATALOGUE.values():
        for cell in experiment.cells:
            for algorithm in ("lstd", "phibe1", "phibe2", "krr"):
                record = published_record(cell, algorithm)
                if record is not None:
                    found.add((cell.key, algorithm))
    assert len(found) == len(_records()) == 180


def test_quick_runs_a_part_of_each_grid_with_known_studies():
    for experiment in CATALOGUE.values():
        assert 0 < len(experiment.quick_cells) <= len(experiment.cells)
        for cell in (*experiment.cells, *experiment.quick_cells):
            assert STUDIES[cell.study].cost(cell, experiment.repetitions) > 0


def test_experiments_of_one_grid_share_their_cells():
    assert CATALOGUE["variance-lstd"].cells == CATALOGUE["rmse-phibe2"].cells
    assert CATALOGUE["value-lstd"].cells[0] in CATALOGUE["variance-lstd"].cells


@pytest.mark.parametrize(
    ("names", "count"), [([], 28), (["all", "qlearning"], 29), (["scaling", "rmse-lstd"], 2)]
)
def test_names_choose_experiments(names, count):
    assert len(find_experiments(names)) == count


def test_a_wrong_name_is_answered_with_the_nearest_right_one():
    message = r"`NAME` must be one of .*; got 'varience-lstd'. Did you mean \"variance-lstd\"\?"
    with pytest.raises(ValueError, match=message):
        find_experiments(["varience-lstd"])
