"""Pictures of results and fitted models, and of plain arrays. Needs the extra ``plot``."""

from .estimate import (
    plot_band,
    plot_convergence,
    plot_fit,
    plot_levels,
    plot_returns,
    plot_steps,
)

__all__ = ["plot_band", "plot_convergence", "plot_fit", "plot_levels", "plot_returns", "plot_steps"]
