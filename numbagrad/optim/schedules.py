"""Learning rates as functions of the step number (an integer, or a 0-d array)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numbagrad.core.arguments import host_value
from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy.elementwise import call, clip, convert_to_float, where

Schedule = Callable[[Any], Any]


def _step(count: Any) -> Array:
    return convert_to_float(Array(host_value(count, "schedule")), "schedule")


def _positive(name: str, what: str, steps: float) -> None:
    if steps <= 0:
        raise ValueError(message(name, f"{what} is not positive", steps, "a number of steps > 0"))


def constant(value: Any) -> Schedule:
    """Always the same."""
    return lambda count: value


def cosine_decay(init_value: Any, decay_steps: float, alpha: Any = 0.0) -> Schedule:
    """From init_value to alpha * init_value along half a cosine. Source: Loshchilov, Hutter 2016.

    >>> from numbagrad import optim
    >>> [float(optim.cosine_decay(2.0, 10)(k)) for k in (0, 5, 10, 99)]
    [2.0, 1.0, 0.0, 0.0]
    """
    _positive("cosine_decay", "decay_steps", decay_steps)

    def schedule(count: Any) -> Array:
        progress = clip(_step(count) / decay_steps, 0.0, 1.0)
        return init_value * (alpha + (1 - alpha) * (0.5 + 0.5 * call("cos", math.pi * progress)))

    return schedule


def exponential_decay(
    init_value: Any,
    transition_steps: float,
    decay_rate: Any,
    transition_begin: float = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """init_value * decay_rate ** (steps since transition_begin / transition_steps), no further than end_value."""
    _positive("exponential_decay", "transition_steps", transition_steps)

    def schedule(count: Any) -> Array:
        power = call("relu", _step(count) - transition_begin) / transition_steps
        value = init_value * decay_rate ** (call("floor", power) if staircase else power)
        if end_value is None:
            return value
        return call("maximum" if decay_rate < 1 else "minimum", value, end_value)

    return schedule


def linear(init_value: Any, end_value: Any, transition_steps: float, transition_begin: float = 0) -> Schedule:
    """From init_value to end_value along a line."""
    _positive("linear", "transition_steps", transition_steps)

    def schedule(count: Any) -> Array:
        progress = clip((_step(count) - transition_begin) / transition_steps, 0.0, 1.0)
        return init_value + (end_value - init_value) * progress

    return schedule


def warmup_cosine(
    init_value: Any, peak_value: Any, warmup_steps: float, decay_steps: float, end_value: Any = 0.0
) -> Schedule:
    """A line from init_value to peak_value, then half a cosine to end_value at step decay_steps.

    >>> from numbagrad import optim
    >>> rate = optim.warmup_cosine(0.0, 1.0, 10, 30)
    >>> [float(rate(k)) for k in (0, 5, 10, 20, 30)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if not 0 < warmup_steps < decay_steps:
        got = f"warmup_steps={warmup_steps}, decay_steps={decay_steps}"
        raise ValueError(message("warmup_cosine", "no steps left to decay", got, "0 < warmup_steps < decay_steps"))
    rise = linear(init_value, peak_value, warmup_steps)

    def schedule(count: Any) -> Array:
        step = _step(count)
        progress = clip((step - warmup_steps) / (decay_steps - warmup_steps), 0.0, 1.0)
        fall = end_value + (peak_value - end_value) * (0.5 + 0.5 * call("cos", math.pi * progress))
        return where(step < warmup_steps, rise(step), fall)

    return schedule
