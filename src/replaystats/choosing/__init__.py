"""What "auto" stands for: sizes, penalties, widths, methods, each with its reason."""
