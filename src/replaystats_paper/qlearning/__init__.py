"""Experience replay in Q-learning (the paper's Appendix D), measured on the maze of Zhang and Sutton (2017).

`learner` is the algorithm, `study` says what is run, `results` runs and resumes it, `page` shows it.
"""

from .page import html_section
from .results import Ordering, QLearningResult, compare_cells, run_qlearning

__all__ = ["Ordering", "QLearningResult", "compare_cells", "html_section", "run_qlearning"]
