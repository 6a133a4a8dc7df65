"""Pictures of results and fitted models. Needs the extra ``plot``."""

from .results import plot_model, plot_result

__all__ = ["plot_model", "plot_result"]
