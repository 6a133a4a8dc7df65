"""The replay buffer: transitions to train with, and values of policies while training."""

from .memory import ReplayBuffer
from .rows import Batch
from .values import LastLayer, LayerValue, MomentView, ValueMonitor

__all__ = ["Batch", "LastLayer", "LayerValue", "MomentView", "ReplayBuffer", "ValueMonitor"]
