"""Exceptions, warnings, the one sentence shape that every message has, and text that is safe to show.

Messages read `` `name` must be <rule>; got <value>. <next step>`` so that a user sees what was
wrong, what came in, and what to do.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class ReplayWarning(UserWarning):
    """A result is usable, but the user should know something about it."""


class SingularReplicateError(ArithmeticError):
    """Some replicates have a numerically singular moment matrix and the user asked to stop there."""


class IntervalWithheldError(ArithmeticError):
    """An interval would be wrong; the message says why, and how to have it all the same."""


class MissingExtraError(ImportError):
    """An optional package is needed for what was asked."""


class Message(str):
    """A message with its parts as data, for those who show it in other words.

    Attributes
    ----------
    parameter : str
        What is wrong, as the code calls it.
    hint : str
        What to do next; empty where nothing is said.
    file : str
        The file it is about; empty where that is clear.
    """

    parameter: str
    hint: str
    file: str = ""

    def __new__(cls, parameter: str, rule: str, got: object, hint: str = "") -> Message:
        """Join the parts to one sentence and a hint."""
        return cls.of(
            f"`{parameter}` must be {rule}; got {got}." + (f" {hint}" if hint else ""), parameter, hint
        )

    @classmethod
    def of(cls, text: str, parameter: str, hint: str = "") -> Message:
        """Return a text of another shape with its parts."""
        message = super().__new__(cls, text)
        message.parameter, message.hint = parameter, hint
        return message


def must_be(name: str, rule: str, got: object, hint: str = "") -> Message:
    """Return the message `` `name` must be <rule>; got <got>. <hint>``, which keeps its parts as data.

    Examples
    --------
    >>> message = must_be("n_resamples", "an int >= 1", 0, "Use a few hundred.")
    >>> print(message)
    `n_resamples` must be an int >= 1; got 0. Use a few hundred.
    >>> message.parameter, message.hint
    ('n_resamples', 'Use a few hundred.')
    """
    return Message(name, rule, got, hint)


@contextmanager
def renamed(inner: str, given: str) -> Iterator[None]:
    """Let a refusal of `inner`, a parameter of the inside, speak of `given`, what the user calls it.

    Examples
    --------
    >>> with renamed("states", "X"):
    ...     raise ValueError(must_be("states", "finite", "NaN"))
    Traceback (most recent call last):
    ValueError: `X` must be finite; got NaN.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        # a part of it may be named, as in `states: "x"`
        if inner == given or not str(error).startswith((f"`{inner}` must", f"`{inner}: ")):
            raise
        raise type(error)(str(error).replace(f"`{inner}", f"`{given}", 1)) from error


def require_extra(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say in one sentence which extra brings it.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    extra : str
        Name of the extra of this package that installs it.
    purpose : str
        What it is needed for, as the start of the sentence.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        msg = f"{purpose} needs the package `{package}`: pip install 'replaystats[{extra}]'."
        raise MissingExtraError(msg) from error


def not_fitted(message: str) -> Exception:
    """Return scikit-learn's `NotFittedError`, which takes a second to import, where there is one to raise."""
    from sklearn.exceptions import NotFittedError

    error: Exception = NotFittedError(message)
    return error


# Characters that steer a terminal or turn the direction of what follows.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return text without the characters that nobody sees but that change what is seen.

    Examples
    --------
    >>> visible("col\u202eumn \x1b[31m1")
    'column [31m1'
    """
    return _STEERING.sub("", text)
