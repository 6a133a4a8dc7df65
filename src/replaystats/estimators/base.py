"""The face that every estimator has: what a fitted estimate is asked, and in which words."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import like, on_host
from .._core.choice import Choice
from .._core.errors import must_be, renamed
from .._core.random import as_generator
from .._core.typing import FloatArray
from .._core.validation import (
    check_bool,
    check_choice,
    check_instance,
    check_int,
    check_memory,
)
from ..estimate import METHODS as AVERAGES, Estimate
from ..inference import Diagnosis, Interval
from ..plans import Resampling, ResamplingPlan
from ..solvers.base import check_solver


class Replayed(BaseEstimator, ABC):  # type: ignore[misc]
    """Members, combined into one estimate, behind `fit` and `predict`.

    Subclasses set `estimate_` by `_finish` in `fit`, and write `_asked` and `_plug_in_at`.
    """

    combine: str
    resampling: Resampling
    random_state: Any

    estimate_: Estimate
    choices_: dict[str, Choice]

    @abstractmethod
    def _asked(self, X: Any) -> Any:
        """Return what the estimate is asked at the points X: features of states, or checked rows."""

    @abstractmethod
    def _plug_in_at(self, asked: Any) -> FloatArray:
        """Return the answer of the one fit on all data."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the replayed answer at the points X.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to predict at.
        return_std : bool
            Whether to return its standard error as well.

        Returns
        -------
        values : array of shape (m,) or (m, n_outputs)
            In the kind of array that `X` is.
        std : array of the same shape
            Only with ``return_std=True``: the standard error over new samples of the data, Monte-Carlo noise
            included.

        See Also
        --------
        plug_in_predict : The same from one fit on all data.
        predict_members : The answers that are combined.
        """
        check_bool(return_std, "return_std")
        return self._answer(X, self._question(X), return_std)

    def predict_members(self, X: Any) -> Any:
        """Return the answer of every member at the points X.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to predict at.

        Returns
        -------
        array of shape (B, m) or (B, m, n_outputs)
            Members without an answer hold no information: ``estimate_.members.failed`` says which.
        """
        return self._answers_of_members(X, self._question(X))

    def plug_in_predict(self, X: Any) -> Any:
        """Return the answer of the one fit on all data at the points X.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to predict at.

        Returns
        -------
        array of shape (m,) or (m, n_outputs)
        """
        return self._plug_in_answer(X, self._question(X))

    def confidence_interval(self, X: Any, confidence_level: float = 0.95) -> Interval:
        """Return the confidence interval of the prediction at every point of `X`.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to predict at.
        confidence_level : float in (0, 1)
            How often intervals made like this one cover.

        Returns
        -------
        Interval
            Arrays `low` and `high`, of shape (m,) or (m, n_outputs). They cover the expected prediction, not
            new observations; the bias of a smooth fit is not in them.
        """
        return self._interval(X, self._question(X), confidence_level)

    def diagnose(self, X: Any = None) -> Diagnosis:
        """Say whether replay helped, whether intervals hold, and what to do.

        Parameters
        ----------
        X : array-like of shape (m, d), optional
            Points that matter. Default: the coefficients themselves, or some of the training rows.

        Returns
        -------
        Diagnosis
            Prints as a short report.
        """
        asked = None if X is None else self._question(X)
        check_is_fitted(self)
        return self._diagnosis(asked, None if X is None else self._places_of(X))

    def plot(self, X: Any = None, y: Any = None, *, ax: Any = None) -> Any:
        """Draw the value function over a grid, or the predictions of a regression with their intervals.

        Parameters
        ----------
        X : array-like, optional
            States of a grid, or rows to predict; a regression draws rows of the fit without it.
        y : array-like of shape (m,), optional
            Observed targets of `X`, for a regression.
        ax : matplotlib Axes, optional
            Where to draw; default a new figure.

        Returns
        -------
        matplotlib Axes
            What was drawn on.
        """
        check_is_fitted(self)
        plots = import_module("replaystats.plots.results")
        with import_module("replaystats.plots.draw").on_screen():
            return plots.plot_model(self, X, y, ax=ax)

    def extend(self, n_more: int) -> Self:
        """Add `n_more` subsets to the fitted ones, which are not computed again.

        Parameters
        ----------
        n_more : int
            How many.

        Returns
        -------
        self
            As if fitted with so many subsets from the beginning; parameters stay as they are.
        """
        check_is_fitted(self)
        check_int(n_more, "n_more")
        return self._finish(self.estimate_.extend(n_more))

    # How the methods above, and those with further arguments, are answered

    def _question(self, X: Any, name: str = "X") -> Any:
        check_is_fitted(self)
        with renamed("states", name):
            return self._asked(self._to_device(X))

    def _to_device(self, X: Any) -> Any:
        """Return the points where the estimate is asked about them: on the host."""
        return on_host(X)

    def _answer(self, X: Any, asked: Any, return_std: bool) -> Any:
        found = self.estimate_.predict(asked, return_std)
        return tuple(like(part, X) for part in found) if return_std else like(found, X)

    def _answers_of_members(self, X: Any, asked: Any) -> Any:
        return like(self.estimate_.member_values(asked), X)

    def _plug_in_answer(self, X: Any, asked: Any) -> Any:
        return like(self._plug_in_at(asked), X)

    def _interval(self, X: Any, asked: Any, confidence_level: float, **options: Any) -> Interval:
        interval = self.estimate_.confidence_interval(asked, confidence_level, **options)
        return interval.map(lambda end: like(end, X))

    def _diagnosis(self, asked: Any, places: Any) -> Diagnosis:
        if asked is None:
            return self.estimate_.diagnose(self._default_question())
        return self.estimate_.diagnose(asked, points=places, observed=self._observed())

    def _default_question(self) -> Any:
        """Return what a diagnosis is about by default; None for the coefficients."""
        return None

    def _places_of(self, X: Any) -> Any:
        """Return points in the form in which their place among the data can be judged, if they have one."""
        return None

    def _observed(self) -> FloatArray | None:
        """Return the points at which there are data, if there are such."""
        return None

    def _finish(self, estimate: Estimate) -> Self:
        """Take an estimate as the fitted one."""
        self.estimate_ = estimate
        return self

    @property
    def resampling_(self) -> Resampling:
        """How subsets are drawn: `resampling`, with the default of every field that was left out."""
        given, filled = vars(self).get("_filled", (None, None))
        if given is not self.resampling:  # asked for several times in a fit
            filled = self.resampling.filled(_defaults(type(self)))
            self._filled = self.resampling, filled
        assert isinstance(filled, Resampling)
        return filled

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``resampling__size=0.3`` replaces one field of `resampling`.

        Parameters
        ----------
        **params
            Parameters by name.

        Returns
        -------
        self
        """
        own = {name: params.pop(name) for name in list(params) if name.startswith("resampling__")}
        super().set_params(**params)
        if own:  # a new value, because the old one is shared with other estimators
            changed = {name.removeprefix("resampling__"): value for name, value in own.items()}
            unknown = changed.keys() - self.resampling.get_params().keys()
            if unknown:
                rule = f"one of {', '.join(self.resampling.get_params())}"
                raise ValueError(must_be("resampling__...", rule, ", ".join(sorted(unknown))))
            self.resampling = replace(self.resampling, **changed)
        return self

    @property
    def plan_(self) -> ResamplingPlan | None:
        """The subsets of the fitted estimate; None for the plug-in."""
        return self.estimate_.plan

    def _forget(self) -> None:
        """Take off what an earlier fit left: attributes that this one may not set."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _check_parameters(self) -> None:
        """Refuse what no data could make right, by the name that the user gave it."""
        for name in _switches(type(self)):
            check_bool(getattr(self, name), name)
        as_generator(copy(self.random_state), "random_state")
        hint = "For example rs.Resampling(n_resamples=200)."
        check_instance(self.resampling, "resampling", Resampling, hint)
        check_choice(self.combine, "combine", AVERAGES)
        self._check_parts()

    def _check_parts(self) -> None:
        """Refuse what is no solver, no function and no count, where the estimator has such a parameter."""
        solver = getattr(self, "solver", None)
        if not (hasattr(self, "_recommended") and self._recommended):
            check_solver(solver)
        for name, left_out in (("policy", not hasattr(self, "policy")), ("initial_policy", True)):
            given = getattr(self, name, None)
            if not (callable(given) or (given is None and left_out)):
                hint = "It takes states (N, d) and returns actions (N,) or their probabilities."
                raise TypeError(must_be(name, "a function of the states", repr(given), hint))
        n_actions = getattr(self, "n_actions", None)
        if n_actions is not None:
            check_memory(check_int(n_actions, "n_actions"), "n_actions", n_actions)


@cache
def _defaults(estimator: type) -> Resampling:
    """Return the default of the parameter `resampling`."""
    default: Resampling = inspect.signature(estimator).parameters["resampling"].default
    return default.filled(Resampling(on_failure="warn"))


@cache
def _switches(estimator: type) -> tuple[str, ...]:
    """Return the parameters that are true or false; reading a signature takes as long as a small fit."""
    parameters = inspect.signature(estimator).parameters.items()
    return tuple(name for name, parameter in parameters if parameter.annotation == "bool")
