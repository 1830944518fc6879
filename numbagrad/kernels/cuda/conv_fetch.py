"""Texts for the tiles of a convolution: where operands lie, how they come to a tile, and where results go.

Columns are the operand a, of which the taps read: a thread of conv and conv_input brings several products of one
column, a thread of conv_weight one product of several columns, whose taps a block keeps in shared memory. Rows are b.
"""

# Checklist of docs/design/cuda.md: walked together with conv.py, which says the result.

from __future__ import annotations

from typing import Any

from numbagrad.kernels.cuda import conv_axes
from numbagrad.kernels.cuda.conv_direct import absorbed
from numbagrad.kernels.cuda.gemm import PAD, Tile

_PROJECT = """@cuda.jit(device=True)
def fetch_left(weights, kept, number, at, step, row, rows, k, last):
    \"\"\"This thread's weights of the next tile: one product of several rows.\"\"\"
    for s in range({left_count}):
        there = k < last and {I}(row + {I}({left_step} * s)) < rows
        kept[s] = {A}(weights[{I}({I}(at + number) + {I}(s * step))]) if there else {A}(0)


@cuda.jit(device=True)
def fetch_right(source, kept, taps, at, plane, k, last, tap_begin, channel, tap, turn, up, over, {offsets}, {sizes}):
    \"\"\"This thread's sources of the next tile: several products of one column, and where the next ones begin.\"\"\"
    for s in range({right_count}):
        value = {A}(0)
        if k < last:
            tap_at = {I}({I}(tap_begin + tap) * {TAP})
{reads}
            if {inside}:
                value = {A}(source[{I}({I}(at + {I}(channel * plane)) + {I}(taps[tap_at + 1]))])
        kept[s] = value
        k, channel, tap = {I}(k + {right_step}), {I}(channel + up), {I}(tap + over)
        if tap >= turn:
            channel, tap = {I}(channel + 1), {I}(tap - turn)
    return channel, tap


"""

_WEIGHT = """@cuda.jit(device=True)
def fetch_left(g, kept, at, step, row, rows, k, last):
    \"\"\"This thread's cotangents of the next tile: one product of several rows.\"\"\"
    for s in range({left_count}):
        there = k < last and {I}(row + {I}({left_step} * s)) < rows
        kept[s] = {A}(g[{I}(at + {I}(s * step))]) if there else {A}(0)


@cuda.jit(device=True)
def fetch_right(x, kept, places, firsts, at, column, k, last, {offsets}, {sizes}):
    \"\"\"This thread's sources of the next tile: one product of several columns.\"\"\"
    for s in range({right_count}):
        value = {A}(0)
        c = {I}(column + {I}({right_step} * s))
{reads}
        if k < last and {inside}:
            value = {A}(x[{I}(at + places[c])])
        kept[s] = value


"""


def _lines(text: str, depth: int) -> str:
    return "\n".join(" " * 4 * depth + line if line else line for line in text.strip("\n").split("\n"))


class Fetch:
    """The parts of a tile kernel that differ between conv or conv_input and conv_weight."""

    def __init__(self, tile: Tile, acc: str, count: int, weight: bool, index: str) -> None:
        self.count, self.weight, self.index = count, weight, index
        threads, bm, bn, bk = tile.threads, tile.rows, tile.columns, tile.depth
        self.more = ("w_taps",) if weight else ("w_group", "w_row", "w_depth")
        self.axes = [f"{name}{k}" for k in range(count) for name in ("n", "step", "s", "hop")]
        right_step = threads // bk if weight else threads // bn
        self.fields: dict[str, Any] = dict(
            A=acc, I=index, BM=bm, BN=bn, BK=bk, count=count, PHASE=4 + count, TAP=2 + count,
            left_count=bm * bk // threads, left_step=threads // bk, left_jump=threads // bk,
            right_count=bn * bk // threads, right_step=right_step, right_jump=right_step * (1 if weight else bn + PAD),
            left_pitch=bm + PAD, right_pitch=bn + PAD,
            offsets=", ".join(self._each("o{k}")), sizes=", ".join(self._each("n{k}")),
            products=f"{index}(images * positions)" if weight else f"{index}(depth * tap_count)",
            columns=f"{index}(depth * tap_count)" if weight else f"{index}(images * positions)",
            out_row=f"{index}(depth * w_taps)" if weight else "target_plane",
            far=f"{index}({0x80000000 if index == 'uint32' else -(2**62)})",
        )  # fmt: skip

    def _each(self, text: str) -> list[str]:
        return [text.format(k=k, I=self.index) for k in range(self.count)]

    def _sum(self, name: str, first: str, terms: list[str]) -> list[str]:
        """Lines that add up an index."""
        lines = [f"{name} = {first}"]
        return [*lines, *(f"{name} = {self.index}({name} + {self.index}({term}))" for term in terms)]

    def _inside(self) -> str:
        tests = [conv_axes.inside(f"r{k}", f"n{k}", self.index) for k in range(self.count)]
        return " and ".join(f"({test})" for test in tests)

    def helpers(self) -> str:
        """The functions that bring a thread's elements."""
        if self.weight:
            reads = [f"        r{k} = {{I}}(o{k} + firsts[{{I}}({k} * {{BN}} + c)])" for k in range(self.count)]
            text = _WEIGHT
        else:
            reads = [f"            r{k} = {{I}}(o{k} + {{I}}(taps[tap_at + {2 + k}]))" for k in range(self.count)]
            text = _PROJECT
        return text.format(reads="\n".join(reads).format(**self.fields), inside=self._inside(), **self.fields)

    def shared(self) -> str:
        """What conv_weight keeps of the taps of its columns."""
        if not self.weight:
            return ""
        text = "    places = cuda.shared.array({BN}, {I})\n    firsts = cuda.shared.array({all}, {I})\n"
        return text.format(all=self.count * self.fields["BN"], **self.fields)

    def lengths(self) -> str:
        """The phase's lengths; where it has no positions, 1: they divide."""
        return "\n".join(self._each("    size{k} = {I}(max({I}(phases[entry + 4 + {k}]), {I}(1)))"))

    def _digits(self, source: str, image: str = "image", j: str = "j") -> list[str]:
        """Image and position along each axis from a flat number."""
        i = self.index
        lines = [f"{image} = {i}({source} // spots)", f"rest = {i}({source} - {i}({image} * spots))"]
        for k in range(self.count - 1, 0, -1):
            lines += [f"whole = {i}(rest // size{k})", f"{j}{k} = {i}(rest - {i}(whole * size{k}))", "rest = whole"]
        return [*lines, f"{j}0 = rest"]

    def _reading(self) -> list[str]:
        """Where along each axis position j reads, but for the tap's own part."""
        return self._each("o{k} = {I}(step{k} * j{k})")

    def _source_at(self, name: str) -> list[str]:
        """Where what position j of the image reads lies in a, but for the part of tap and channel."""
        plane = f"{self.index}({self.index}(image * groups) + group)"
        first = f"{self.index}({plane} * {self.index}(depth * source_plane))"
        return self._sum(name, first, self._each("s{k} * o{k}"))

    def _target_at(self, name: str, row: str) -> list[str]:
        """Where position j of a row of the image lies in the targets."""
        plane = f"{self.index}({self.index}({self.index}(image * groups) + group) * rows)"
        first = f"{self.index}({self.index}({plane} + {row}) * target_plane)"
        return self._sum(name, first, ["begin", *self._each("hop{k} * j{k}")])

    def setup(self) -> str:
        """Which elements this thread brings, and where to."""
        return _lines(self._weight_setup() if self.weight else self._project_setup(), 1)

    def _project_setup(self) -> str:
        text = """
k = {I}(first + {I}(t % {BK}))
a_channel, a_tap = {I}(k // turn), {I}(k % turn)
a_up, a_over = {I}({I}({BK}) // turn), {I}({I}({BK}) % turn)
a_row = {I}(row + {I}(t // {BK}))
a_at = {I}({I}(group * w_group) + {I}(a_row * w_row))
b_k = {I}(first + {I}(t // {BN}))
b_channel, b_tap = {I}(b_k // turn), {I}(b_k % turn)
b_up, b_over = {I}({I}({right_step}) // turn), {I}({I}({right_step}) % turn)
c = {I}(column + {I}(t % {BN}))
b_last = last if c < columns else {I}(0)
{digits}
left_put = {I}({I}({I}(t % {BK}) * {left_pitch}) + {I}(t // {BK}))
right_put = {I}({I}({I}(t // {BN}) * {right_pitch}) + {I}(t % {BN}))
"""
        digits = "\n".join([*self._digits("c"), *self._reading(), *self._source_at("b_at")])
        return text.format(digits=digits, **self.fields)

    def _weight_setup(self) -> str:
        text = """
if t < {BN}:
    c = {I}(column + t)
    places[t] = {I}(0)
{far_lines}
    if c < columns:
        channel = {I}(c // turn)
        tap_at = {I}({I}(tap_begin + {I}(c - {I}(channel * turn))) * {TAP})
        places[t] = {I}({I}(channel * source_plane) + {I}(taps[tap_at + 1]))
{first_lines}
cuda.syncthreads()
k = {I}(first + {I}(t % {BK}))
a_row = {I}(row + {I}(t // {BK}))
{digits}
{steps}
left_put = {I}({I}({I}(t % {BK}) * {left_pitch}) + {I}(t // {BK}))
right_put = {I}({I}({I}(t % {BK}) * {right_pitch}) + {I}(t // {BK}))
"""
        far = "\n".join(f"    firsts[{{I}}({k} * {{BN}} + t)] = {{far}}" for k in range(self.count))
        first = "\n".join(
            f"        firsts[{{I}}({k} * {{BN}} + t)] = {{I}}(taps[tap_at + {2 + k}])" for k in range(self.count)
        )
        digits = "\n".join(self._digits("k"))
        steps = "\n".join(self._digits(f"{self.index}({self.fields['BK']})", "image_up", "up"))
        return text.format(
            far_lines=far.format(**self.fields), first_lines=first.format(**self.fields), digits=digits, steps=steps,
            **self.fields,
        )  # fmt: skip

    def fetch(self, depth: int) -> str:
        """Bring the elements of the next tile."""
        if self.weight:
            lines = [
                *self._reading(),
                *self._target_at("b_at", "a_row"),
                *self._source_at("a_at"),
                "fetch_left(b, left_next, b_at, {I}({left_step} * target_plane), a_row, rows, k, last)",
                "fetch_right(",
                "    a, right_next, places, firsts, a_at, {I}(t // {BK}), k, last, {offsets}, {sizes},",
                ")",
            ]
        else:
            lines = [
                "number = {I}(0)",
                "if k < last:",
                "    number = {I}({I}(a_channel * w_depth) + {I}(taps[{I}({I}(tap_begin + a_tap) * {TAP})]))",
                "fetch_left(b, left_next, number, a_at, {I}({left_step} * w_row), a_row, rows, k, last)",
                "b_channel, b_tap = fetch_right(",
                "    a, right_next, taps, b_at, source_plane, b_k, b_last, tap_begin, b_channel, b_tap, turn, b_up,",
                "    b_over, {offsets}, {sizes},",
                ")",
            ]
        return _lines("\n".join(lines).format(**self.fields), depth)

    def advance(self, depth: int) -> str:
        """This thread's next products."""
        lines = ["k = {I}(k + {BK})"]
        if self.weight:
            carry = "{I}(0)"
            for k in range(self.count - 1, -1, -1):
                lines += [
                    f"j{k} = {{I}}(j{k} + {{I}}(up{k} + {carry}))",
                    f"carry = {{I}}(1) if j{k} >= size{k} else {{I}}(0)",
                    f"j{k} = {{I}}(j{k} - {{I}}(carry * size{k}))",
                ]
                carry = "carry"
            # the first axis is whole in image_up: its digit has carried over already
            lines.append("image = {I}(image + {I}(image_up + carry))")
        else:
            lines += [
                "b_k = {I}(b_k + {BK})",
                "a_channel, a_tap = {I}(a_channel + a_up), {I}(a_tap + a_over)",
                "if a_tap >= turn:",
                "    a_channel, a_tap = {I}(a_channel + 1), {I}(a_tap - turn)",
            ]
        return _lines("\n".join(lines).format(**self.fields), depth)

    def target(self, depth: int) -> str:
        """`at`: where column c of row 0 goes."""
        if self.weight:
            lines = [
                "channel = {I}(c // turn)",
                "tap_at = {I}({I}(tap_begin + {I}(c - {I}(channel * turn))) * {TAP})",
                "at = {I}({I}({I}({I}({I}(group * rows) * depth) + channel) * w_taps) + {I}(taps[tap_at]))",
            ]
            return _lines("\n".join(lines).format(**self.fields), depth)
        return _lines("\n".join([*self._digits("c"), *self._target_at("at", f"{self.index}(0)")]), depth)

    def operands(self, depth: int) -> str:
        """Add the product k of row r and column c to `value`, zeros absorbing."""
        if self.weight:
            lines = self._digits("k")
            g = self._target_at("b_at", "r")
        else:
            lines = [
                "channel = {I}(k // turn)",
                "tap_at = {I}({I}(tap_begin + {I}(k - {I}(channel * turn))) * {TAP})",
            ]
            g = self._sum("b_at", "{I}(group * w_group)", ["r * w_row", "channel * w_depth", "taps[tap_at]"])
        lines += self._reading()
        lines += self._each("r{k} = {I}(o{k} + {I}(taps[tap_at + 2 + {k}]))")
        inner = [
            *self._source_at("a_at"),
            "a_at = {I}({I}(a_at + {I}(channel * source_plane)) + {I}(taps[tap_at + 1]))",
            *g,
        ]
        lines += [
            f"if {self._inside()}:",
            *("    " + line for line in inner),
            "    p, q = {A}(a[a_at]), {A}(b[b_at])",
            f"    if not ({absorbed('p', 'q', 'flags', self.fields['A'])}):",
            "        value = {A}(value + p * q)",
        ]
        return _lines("\n".join(lines).format(**self.fields), depth)
