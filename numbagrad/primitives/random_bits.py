"""Random bits: constant primitives whose stream is a function of (key, element index) alone."""

from __future__ import annotations

from numbagrad.core.registry import Primitive

# Operands: key (uint32[2]) and the index of the first element (a 0-d uint64).
random_bits = Primitive(
    "random_bits",
    "random_bits:random_bits",
    doc="Uniform bits as uint32 or uint64 of a shape: Threefry-2x32-20 of the element's 64-bit index.",
)
random_pairs = Primitive(
    "random_pairs",
    "random_bits:random_pairs",
    doc="Both words of Threefry-2x32-20 of each index, as uint32 along a last axis of length 2: new keys.",
)
random_order = Primitive(
    "random_order",
    "random_bits:random_order",
    doc="The permutation of the last axis that sorts random bits of a shape.",
)

# Operands: key, then the parameters of the distribution, broadcast to the shape.
random_gamma = Primitive(
    "random_gamma",
    "random_bits:random_gamma",
    doc="Logarithm of a standard gamma variate, by rejection with counters of its own for each element.",
)
random_poisson = Primitive(
    "random_poisson",
    "random_bits:random_poisson",
    doc="Poisson variates, by rejection with counters of its own for each element.",
)
