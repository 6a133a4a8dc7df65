"""Experience replay in Q-learning (the paper's Appendix D), measured on the maze of Zhang and Sutton (2017).

`learner` is the algorithm, `study` says what is run, `results` runs, resumes and shows it.
"""

from .results import Ordering, QLearningResult, compare_cells, html_section, run_qlearning

__all__ = ["Ordering", "QLearningResult", "compare_cells", "html_section", "run_qlearning"]
