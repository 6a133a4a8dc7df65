"""What "auto" stands for: sizes, penalties, widths, methods, each with its reason."""

from .penalties import PenaltyCurve, kernel_penalties

__all__ = ["PenaltyCurve", "kernel_penalties"]
