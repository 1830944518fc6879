"""Texts of convolutions by tiles: matrix products whose matrices are never built.

A block makes a tile of rows x columns of one phase and group (conv_tables.py), a few products of each at a time, which
it brings to shared memory:

    conv, conv_input   rows: target channels            columns: images x positions   products: depth x taps
    conv_weight        rows: channels of the cotangent  columns: channels x taps      products: images x positions
"""

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cuda import conv_axes
from numbagrad.kernels.cuda.conv_direct import absorbed
from numbagrad.kernels.cuda.gemm import GROUP, PAD, Tile, accumulator
from numbagrad.kernels.cuda.kernel import Kernel, kernel, short
from numbagrad.scalar.render import NAMES

_HEADER = '''"""{title} of {T}, {count} axes, by tiles of {BM} x {BN}."""

from numbagrad.kernels.cuda.frontend import {names}


'''

# of conv and conv_input: fetch_left brings weights, fetch_right what the taps read
_PROJECT_FETCH = '''@cuda.jit(device=True)
def fetch_left(weights, kept, taps, at, step, row, rows, k, last, channel, tap, w_depth):
    """This thread's weights of the next tile: one product of several rows."""
    number = {I}(0)
    if k < last:
        number = {I}({I}(channel * w_depth) + {I}(taps[{I}(tap * {TAP})]))
    for s in range({left_count}):
        there = k < last and {I}(row + {I}({left_step} * s)) < rows
        kept[s] = {A}(weights[{I}({I}(at + number) + {I}(s * step))]) if there else {A}(0)


@cuda.jit(device=True)
def fetch_right(source, kept, taps, at, plane, k, last, first_tap, channel, tap, turn, up, over, {offsets}, {sizes}):
    """This thread's sources of the next tile: several products of one column, and where to go on."""
    for s in range({right_count}):
        value = {A}(0)
        if k < last:
            e = {I}({I}(first_tap + tap) * {TAP})
{reads}
            if {inside}:
                value = {A}(source[{I}({I}(at + {I}(channel * plane)) + {I}(taps[{I}(e + 1)]))])
        kept[s] = value
        k, channel, tap = {I}(k + {right_step}), {I}(channel + up), {I}(tap + over)
        if tap >= turn:
            channel, tap = {I}(channel + 1), {I}(tap - turn)
    return channel, tap


'''

_PROJECT_SETUP = """    # products are (channel, tap), taps fastest; columns are (image, position)
    products, columns = {I}(depth * tap_count), {I}(images * positions)
    turn = {I}(max(tap_count, {I}(1)))
    {span}
    k = {I}(first + {I}(t % {BK}))
    a_channel, a_tap = {I}(k // turn), {I}(k % turn)
    a_up, a_over = {I}({I}({BK}) // turn), {I}({I}({BK}) % turn)
    a_row = {I}(row + {I}(t // {BK}))
    a_at = {I}({I}(group * w_group) + {I}(a_row * w_row))
    a_step = {I}({left_step} * w_row)
    b_k = {I}(first + {I}(t // {BN}))
    b_channel, b_tap = {I}(b_k // turn), {I}(b_k % turn)
    b_up, b_over = {I}({I}({right_step}) // turn), {I}({I}({right_step}) % turn)
    c = {I}(column + {I}(t % {BN}))
    b_last = last if c < columns else {I}(0)
{place}
    b_at = {I}({I}({I}(image * groups) + group) * {I}(depth * source_plane))
{offsets_at}
"""

_PROJECT_NEXT = """    fetch_left(b, left_next, taps, a_at, a_step, a_row, rows, k, last, a_channel, {first_tap}a_tap, w_depth)
    b_channel, b_tap = fetch_right(
        a, right_next, taps, b_at, source_plane, b_k, b_last, tap_begin, b_channel, b_tap, turn, b_up, b_over,
        {offsets}, {sizes},
    )
"""
