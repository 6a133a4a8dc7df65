"""The one streamed problem that every kind of cluster is given."""

from __future__ import annotations

import replaystats as rs
from replaystats.moments import StreamedMoments, transition_moments

N = 40000
BASIS = rs.basis.Fourier(2)


def streamed(source, **options):
    return StreamedMoments(source, transition_moments, basis=BASIS, discount=0.9, **options)
