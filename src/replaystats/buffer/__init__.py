"""The replay buffer: transitions to train with, and values of policies while training."""

from .memory import Batch, ReplayBuffer

__all__ = ["Batch", "ReplayBuffer"]
