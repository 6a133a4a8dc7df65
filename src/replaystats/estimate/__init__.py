"""Members combined into one estimate, and what it says about itself."""

from .combined import METHODS, Estimate, average, plug_in

__all__ = ["METHODS", "Estimate", "average", "plug_in"]
