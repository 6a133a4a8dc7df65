"""The paper, re-run and set beside its published numbers.

`configs/` holds one file per figure or table; `reproduce` runs the cells they name and writes the report.
"""

from .catalogue import Experiment, find_experiments, load_catalogue
from .cells import Cell, Settings

__all__ = ["Cell", "Experiment", "Settings", "find_experiments", "load_catalogue"]
