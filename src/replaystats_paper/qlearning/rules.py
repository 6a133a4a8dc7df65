"""What a learner does with its memory, and for how long; checked at the door."""

from __future__ import annotations

from dataclasses import dataclass

from replaystats.toolkit import check_choice, check_int, check_real, must_be

from .samplers import SAMPLERS

FEATURES = ("table", "tiles")
TIMEOUTS = ("bootstrap", "end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How Q-learning replays: everything but the capacity of the memory.

    Attributes
    ----------
    sampler : {"uniform", "combined", "prioritised"}
    minibatch : int
        Transitions per minibatch, k.
    ratio : float
        Minibatches per environment step, B: a whole number, or one over a whole number.
    n_step : int
        Rewards taken before the bootstrap, without off-policy correction.
    features : {"table", "tiles"}
        A table of action values, or linear in tiles of the row and column.
    timeouts : {"bootstrap", "end"}
        Whether the last transition of an episode that was cut off bootstraps like any other (right: the
        world goes on), or is mistaken for an end of value 0.
    step_size, discount, explore : float
        Step size per transition (shared out over the active features), discount, and the share of
        random actions.

    Examples
    --------
    >>> Rule(ratio=0.25).period, Rule(ratio=16).minibatches
    (4, 16)
    """

    sampler: str = "uniform"
    minibatch: int = 10
    ratio: float = 1.0
    n_step: int = 1
    features: str = "table"
    timeouts: str = "bootstrap"
    step_size: float = 0.1
    discount: float = 1.0
    explore: float = 0.1

    def __post_init__(self) -> None:
        check_choice(self.sampler, "sampler", SAMPLERS)
        check_choice(self.features, "features", FEATURES)
        check_choice(self.timeouts, "timeouts", TIMEOUTS)
        check_int(self.minibatch, "minibatch")
        check_int(self.n_step, "n_step")
        ratio = check_real(self.ratio, "ratio", low=0.0, closed="neither")
        if not (ratio.is_integer() or (1 / ratio).is_integer()):
            raise ValueError(must_be("ratio", "a whole number, or one over a whole number", ratio))
        check_real(self.step_size, "step_size", low=0.0, high=1.0, closed="right")
        check_real(self.discount, "discount", low=0.0, high=1.0, closed="right")
        check_real(self.explore, "explore", low=0.0, high=1.0)

    @property
    def minibatches(self) -> int:
        """Minibatches in a step that learns."""
        return max(1, round(self.ratio))

    @property
    def period(self) -> int:
        """Environment steps from one step that learns to the next."""
        return max(1, round(1 / self.ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """For how long a run goes on, and when its action values are looked at.

    Attributes
    ----------
    n_episodes : int
    timeout : int
        Steps after which an episode is cut off.
    checkpoints : tuple of int
        Numbers of finished episodes after which Q is kept.
    """

    n_episodes: int = 150
    timeout: int = 5000
    checkpoints: tuple[int, ...] = (30, 60, 150)

    def __post_init__(self) -> None:
        check_int(self.n_episodes, "n_episodes")
        check_int(self.timeout, "timeout")
        for checkpoint in self.checkpoints:
            check_int(checkpoint, "checkpoints", high=self.n_episodes)
