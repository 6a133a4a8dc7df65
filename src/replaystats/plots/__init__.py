"""Pictures of estimates: bands, replicates, convergence, variance, influence. Needs the extra ``plot``."""

from .estimate import (
    plot_band,
    plot_convergence,
    plot_fit,
    plot_influence,
    plot_replicates,
    plot_variance,
)
from .intervals import plot_levels, plot_returns

__all__ = [
    "plot_band",
    "plot_convergence",
    "plot_fit",
    "plot_influence",
    "plot_levels",
    "plot_replicates",
    "plot_returns",
    "plot_variance",
]
