"""Thousands of bad arguments over the whole public API: each is refused, by name, at once."""

from __future__ import annotations

import inspect
import sys

import pytest

import replaystats as rs
from attack.bad_values import bad_values
from attack.targets import ELSEWHERE, RESULTS, TARGETS, public_callables
from attack.trial import outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of time and memory are Linux's")

ANY_SIGN, ANY_WORD = {"a negative number"}, {"a nonsense word", "an empty word", "a number as text"}
ANY_COUNT = {"an unheard-of count"}
ANY_POINT = ANY_SIGN | ANY_COUNT | {"a fraction for a count", "two instead of a flag"}
ANY_LABEL = {"complex entries", "dates", "a structured array", "text entries", "infinite entries"}
ANY_LABEL |= {"integers beyond 2**53"}
DIFFUSIONS = ("geometric_brownian", "hermite_ou", "linear_quadratic", "torus_brownian")
# Values from the list that are right for a parameter after all, by the reason.
FINE = {
    # Words that a plot writes next to a line, and names of files.
    ("plots.plot_convergence", "label"): ANY_WORD,
    ("plots.plot_fit", "label"): ANY_WORD,
    ("plots.plot_influence", "what"): ANY_WORD,
    ("ReplayBuffer", "journal"): ANY_WORD,
    # A path of a file that is an array, and where products are computed.
    ("ArrayBlocks", "arrays"): {"an array"},
    ("inference.replay_variance", "reference"): {"an array"},
    # Labels of any kind that can be told apart.
    **{(name, "clusters"): ANY_LABEL for name in ("ols_moments", "iv_moments")},
    # Numbers that may have either sign; estimated variances may come out below 0.
    **{(f"simulate.{name}", "drift"): ANY_SIGN for name in ("ornstein_uhlenbeck", "OrnsteinUhlenbeck")},
    ("simulate.GeometricBrownian", "drift"): ANY_SIGN,
    ("simulate.GeometricBrownian", "power"): ANY_SIGN,
    ("ReplayKernelRidge", "coef0"): ANY_SIGN,
    ("basis.Polynomial", "center"): ANY_SIGN,
    ("basis.TileCoding", "low"): ANY_SIGN,
    ("plots.plot_returns", "value"): ANY_SIGN,
    **{("plots.plot_replicates", name): ANY_SIGN for name in ("estimate", "plug_in")},
    **{("plots.plot_variance", name): ANY_SIGN for name in ("first_order", "higher_order", "monte_carlo")},
    # A path may start at any point of the line.
    **{(f"simulate.{name}", "start"): ANY_POINT for name in DIFFUSIONS},
    ("simulate.ornstein_uhlenbeck", "start"): ANY_POINT | {"nothing"},
    # Counts that cost nothing however large they are: bounds, strides, divisors, a budget.
    ("ArrayBlocks", "block_rows"): ANY_COUNT,
    ("LSPI", "max_iter"): ANY_COUNT,
    **{(name, "memory_budget"): ANY_COUNT for name in TARGETS},
    ("PhiBE", "window_stride"): ANY_COUNT,
    ("phibe_moments", "window_stride"): ANY_COUNT,
    ("basis.FunctionBasis", "dimension"): ANY_COUNT,  # refused as soon as it meets states
    ("inference.blom_variance", "n_resamples"): ANY_COUNT,
    ("inference.hoeffding_variance", "n_observations"): ANY_COUNT,
    ("inference.unit_moments", "block_length"): ANY_COUNT,
    ("inference.unit_moments", "parent"): {"integers beyond 2**53"},
    ("plan_from_indices", "n_observations"): ANY_COUNT,
    ("plots.plot_influence", "n_named"): ANY_COUNT,
    **{(f"readers.{name}", "time_limit"): ANY_COUNT for name in ("from_table", "from_transitions")},
    ("recommended_estimate", "n_resamples"): ANY_COUNT,  # the plug-in is handed back here
    # scikit-learn counts jobs backwards from all cores.
    **{(name, "n_jobs"): ANY_SIGN for name in TARGETS},
}


@pytest.mark.parametrize("name", TARGETS)
def test_good_arguments_work(name):
    TARGETS[name]()


@pytest.mark.parametrize("name", TARGETS)
def test_bad_arguments_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a word may be the name of a file
    target, wrong = TARGETS[name], []
    names = [parameter.name for parameter in target.parameters]
    for parameter in target.parameters:
        fine = FINE.get((name, parameter.name), set())
        for label, value in bad_values(parameter):
            if label in fine:
                continue
            what, message = outcome(lambda: target(**{parameter.name: value}), names)  # noqa: B023
            if what != "refused":
                wrong.append(f"{parameter.name} = {label}: {what}. {message}")
    assert not wrong, f"{name}: {len(wrong)} attacks got through\n" + "\n".join(wrong)


def test_every_public_callable_is_attacked():
    """A new public name without good arguments in `targets` fails here."""
    missing = []
    for name, member in public_callables().items():
        is_error = inspect.isclass(member) and issubclass(member, BaseException)
        if not is_error and name not in TARGETS.keys() | RESULTS | ELSEWHERE:
            missing.append(name)
    assert not missing


def test_there_are_enough_attacks():
    n_attacks = sum(1 for target in TARGETS.values() for p in target.parameters for _ in bad_values(p))
    assert n_attacks >= 900


def test_the_trial_sees_each_outcome():
    def refuses():
        raise ValueError("`x` must be positive; got -1.")

    def raw():
        raise IndexError("list index out of range")

    def nameless():
        raise ValueError("could not convert string to float: 'a'")

    def hungry():
        return bytearray(2**36)

    assert outcome(refuses, ["x"])[0] == "refused"
    assert outcome(refuses, ["y"])[0] == "raw"
    assert outcome(raw, ["x"])[0] == "raw"
    assert outcome(nameless, ["x"])[0] == "raw"
    assert outcome(hungry, ["x"])[0] == "memory"
    assert outcome(lambda: rs.basis.OneHot(2), ["x"])[0] == "silent"
