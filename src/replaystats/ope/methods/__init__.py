"""Methods that estimate the value of a policy from logged episodes, one a module."""
