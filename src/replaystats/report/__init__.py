"""Stage 7: finished numbers as tables, figures and pages. Nothing here computes an estimate."""
