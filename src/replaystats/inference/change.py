"""Changes of a mean while values arrive: a distribution-free detector, and a mean that restarts after one."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._core.entries import check_known
from .._core.thresholds import CHANGE_SHARE, MIN_EFFECTIVE, TIGHTEST_AT
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_length, check_real
from .pivot import Interval
from .sequences import ConfidenceSequence

RATES = np.geomspace(0.1, 10.0, 25)  # at which exponential moments of scores are compared


def _mean_scores(edges: FloatArray) -> FloatArray:
    """Return the means of the normal quantile function between successive edges in [0, 1]."""
    density = np.exp(-0.5 * ndtri(edges) ** 2) / np.sqrt(2.0 * np.pi)  # 0 at both ends
    return np.asarray(-np.diff(density) / np.diff(edges))


class ChangeDetector:
    """Detects that values, which were exchangeable so far, have shifted; few false alarms in a whole run.

    The procedure:

    1. The rank r of value i among the first i is uniform if the values are exchangeable, whatever their law,
       and independent of the ranks before. Its normal score z_i is the mean of Phi^-1 over
       ((r - 1) / i, r / i), which is sub-Gaussian with variance proxy 1 (Jensen's inequality). Equal values
       share their ranks and the mean of their scores, divided by the root of their own variance proxy
       s^2 = max_l 2 log E exp(l z) / l^2, so that coins and counts are detected as well.
    2. After a change behind value k by d standard deviations, z_i has a mean of about d k / i, because values
       after the change enter the ranks as well. The likelihood ratio, averaged over d ~ N(0, 1), is
       L_k = (1 + C)^(-1/2) exp(S^2 / (2 (1 + C))), S = sum_{i > k} (k/i) z_i, C = sum_{i > k} (k/i)^2.
    3. The mixture of L_k over k, with weights proportional to 1 / (k log^2 k) from k = 10 on, is a
       supermartingale (a conformal test martingale). A change is reported when it exceeds 0.3 / false_alarm.

    By Ville's inequality the probability of ever exceeding 1 / false_alarm is at most `false_alarm`; the
    factor 0.3 uses what this bound leaves, and is measured (`thresholds.CHANGE_SHARE`).

    Parameters
    ----------
    false_alarm : float in (0, 1)
        Probability of a report in a run of 1000 values without a change.

    Attributes
    ----------
    n_values : int
    evidence : float
        The mixture now.
    changed_at : int or None
        Number of values before the change, once one is reported: the k with the largest weighted ratio.

    References
    ----------
    .. [1] V. Vovk (2021), Testing randomness online, Statistical Science 36.
    .. [2] J. Shin, A. Ramdas and A. Rinaldo (2024), E-detectors: a nonparametric framework for sequential
       change detection, New England Journal of Statistics in Data Science 2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> detector = ChangeDetector()
    >>> detector.update(rng.exponential(size=100))
    False
    >>> detector.update(1.0 + rng.exponential(size=30)), detector.changed_at
    (True, 89)
    """

    def __init__(self, *, false_alarm: float = 0.05) -> None:
        self.false_alarm = check_real(false_alarm, "false_alarm", low=0.0, high=1.0, closed="neither")
        self._sorted: list[float] = []
        self._seen: set[float] = set()
        self._tied = False
        self._scores = array("d", [0.0])  # cumulated z_i / i, and 1 / i^2: S and C for all k follow
        self._squares = array("d", [0.0])
        self.evidence = 0.0
        self.changed_at: int | None = None

    @property
    def n_values(self) -> int:
        """Number of values so far."""
        return len(self._sorted)

    def update(self, values: ArrayLike) -> bool:
        """Add values in order; say whether a change has been reported. Values after a report are ignored."""
        for value in np.atleast_1d(check_array(values, "values", ndim=(0, 1), allow_empty=True)).tolist():
            if self.changed_at is not None:
                break
            self._tied |= value in self._seen
            self._seen.add(value)
            insort(self._sorted, value)
            count = self.n_values
            self._scores.append(self._scores[-1] + self._score(value) / count)
            self._squares.append(self._squares[-1] + 1.0 / count**2)
            self._judge()
        return self.changed_at is not None

    def _score(self, value: float) -> float:
        """Return the normal score of the newest value among all."""
        count = self.n_values
        if not self._tied:
            rank = bisect_left(self._sorted, value)
            return float(_mean_scores(np.array([rank, rank + 1]) / count)[0])
        values, counts = np.unique(self._sorted, return_counts=True)
        scores = _mean_scores(np.concatenate([[0], np.cumsum(counts)]) / count)
        if len(values) == 1:
            return 0.0
        rates = np.concatenate([-RATES, RATES])[:, None]
        moments = np.log(np.exp(rates * scores) @ (counts / count))
        proxy = np.max(2.0 * moments / rates[:, 0] ** 2)
        return float(scores[np.searchsorted(values, value)] / np.sqrt(proxy))

    def _judge(self) -> None:
        count = self.n_values
        if count <= MIN_EFFECTIVE:
            return
        k = np.arange(MIN_EFFECTIVE, count, dtype=np.float64)
        scores: FloatArray = np.frombuffer(self._scores)
        squares: FloatArray = np.frombuffer(self._squares)
        where = slice(MIN_EFFECTIVE, count)
        S = k * (scores[count] - scores[where])
        C = k**2 * (squares[count] - squares[where])
        # The sum of 1 / (j log^2 j) over j > 10 is below 1 / log(10.5): the weights sum to less than 1.
        weights = np.log(MIN_EFFECTIVE + 0.5) / ((k + 1.0) * np.log(k + 1.0) ** 2)
        parts = np.log(weights) - 0.5 * np.log1p(C) + S**2 / (2.0 * (1.0 + C))
        top = parts.max()
        self.evidence = float(np.exp(min(top + np.log(np.exp(parts - top).sum()), 700.0)))
        if self.evidence >= CHANGE_SHARE / self.false_alarm:
            self.changed_at = int(k[np.argmax(parts)])


@dataclass(frozen=True, slots=True)
class MonitoredMean:
    """What is known about a mean now.

    Attributes
    ----------
    value : float
        Mean of the values since `since`; NaN without any.
    interval : Interval
        Valid at all looks together.
    one_look : Interval
        The usual interval, for one look at a time fixed in advance.
    n_values : int
        How many values enter.
    since : int
        Number of the first value that enters, counted from 0: earlier ones belong to the time before a
        change or a restart.
    changes : tuple of int
        Numbers of the values behind which changes were found.
    caveat : str
        Why the interval may be wrong, and what to do (`ConfidenceSequence.caveat`); empty if it is reliable.
    """

    value: float
    interval: Interval
    one_look: Interval
    n_values: int
    since: int
    changes: tuple[int, ...]
    caveat: str

    @property
    def reliable(self) -> bool:
        """Whether the interval has no caveat."""
        return not self.caveat

    def __str__(self) -> str:
        low, high = float(self.interval.low[0]), float(self.interval.high[0])
        text = f"{self.value:.4g} in [{low:.4g}, {high:.4g}] at all looks, from {self.n_values} values"
        text += f" since number {self.since}" if self.since else ""
        text += f"; changes behind {', '.join(map(str, self.changes))}" if self.changes else ""
        return text + (f"; not reliable: {self.caveat}" if self.caveat else "")


class Monitor:
    """The mean of values that arrive, with a confidence sequence that starts again after a change.

    After a reported change the sequence and the detector start with the next value, because the choice of an
    earlier start would depend on the values themselves. Every sequence has its own confidence level.

    Parameters
    ----------
    confidence_level, bounds, tightest_at, ignore_rarer
        Of `ConfidenceSequence`.
    false_alarm : float in (0, 1)
        Of `ChangeDetector`, for every stretch without a change.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(ignore_rarer=0.05)
    >>> monitor.update(np.concatenate([rng.normal(size=100), rng.normal(2.0, 1.0, size=100)]))
    >>> print(monitor.look())
    1.948 in [1.614, 2.258] at all looks, from 92 values since number 108; changes behind 100
    """

    def __init__(
        self,
        *,
        confidence_level: float = 0.95,
        bounds: tuple[float, float] | None = None,
        tightest_at: float = TIGHTEST_AT,
        ignore_rarer: float | None = None,
        false_alarm: float = 0.05,
    ) -> None:
        self._options = {
            "confidence_level": confidence_level,
            "bounds": bounds,
            "tightest_at": tightest_at,
            "ignore_rarer": ignore_rarer,
        }
        self._false_alarm = false_alarm
        self.n_seen = 0
        self.changes: tuple[int, ...] = ()
        self.restart()

    def restart(self) -> None:
        """Begin anew with the next value, for example because the policy was changed."""
        self.sequence = ConfidenceSequence(**self._options)  # type: ignore[arg-type]
        self.detector = ChangeDetector(false_alarm=self._false_alarm)
        self.since = self.n_seen
        self._units: set[Any] = set()  # labels so far
        self._firsts: list[int] = []  # numbers of the values that the detector has

    def update(self, values: ArrayLike, units: ArrayLike | None = None) -> None:
        """Add values in order.

        With `units`, labels of what is independent, changes are looked for in the first value of every unit:
        the detector needs values that are exchangeable as long as nothing changes.
        """
        new = np.atleast_1d(check_array(values, "values", ndim=(0, 1), allow_empty=True))
        labels = None if units is None else check_known(units, "units")
        if labels is not None:
            check_length(len(labels), len(new), "units", "values")
        while new.size:
            judged = np.arange(len(new))  # places of the values that the detector gets
            if labels is not None:
                known = [label not in self._units for label in labels.tolist()]
                first = np.sort(np.unique(labels, return_index=True)[1])
                judged = first[np.array(known)[first]]
            before = self.detector.n_values
            changed = self.detector.update(new[judged])
            taken = self.detector.n_values - before
            n_used = int(judged[taken - 1]) + 1 if changed else len(new)  # those up to a report, or all
            self.sequence.update(new[:n_used], None if labels is None else labels[:n_used])
            self._firsts.extend((self.n_seen + judged[:taken]).tolist())
            self.n_seen += n_used
            new = new[n_used:]
            if labels is not None:
                self._units.update(labels[:n_used].tolist())
                labels = labels[n_used:]
            if self.detector.changed_at is not None:
                self.changes = (*self.changes, self._firsts[self.detector.changed_at - 1] + 1)
                self.restart()

    def look(self) -> MonitoredMean:
        """Return what is known now; it may be asked for at any time."""
        return MonitoredMean(
            value=self.sequence.mean,
            interval=self.sequence.interval(),
            one_look=self.sequence.one_look(),
            n_values=len(self.sequence),
            since=self.since,
            changes=self.changes,
            caveat=self.sequence.caveat,
        )
