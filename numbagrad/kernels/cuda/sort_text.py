"""The kernels of sorting, as text.

Elements become unsigned keys in their order. What is sorted are words:

    keys    the keys alone; the elements come back out of them, so the map is one to one
    packed  keys of up to 32 bits above the place in the line, in one 64-bit word
    pairs   64-bit keys, with the places in an array beside them

A block of 256 threads sorts a tile of 2048 words in shared memory: each thread sorts 8 in registers, then runs are
merged pair by pair, each thread giving 8 words of the result ("merge path": Odeh, Green, Mwassi, Shmueli, Birk 2012).
All of it is stable. Short lines share a tile, a power of two of places each; longer ones are tiles merged in global
memory.
"""

# Checklist of docs/design/cuda.md: walked together with sort.py, which says the result.

from __future__ import annotations

from functools import cache

from numbagrad.kernels.cuda.kernel import THREADS

EACH = 8
TILE = THREADS * EACH
ROOM = TILE + TILE // EACH + 16  # words of shared memory: one left out after every 8, and what is read past the end
FIRST, LAST, VALUES, FLOATING = 1, 2, 4, 8  # flags of a launch
FORMS = ("keys", "packed", "pairs")

_HEADER = '''"""{title}: {form} of {bits}-bit elements."""

from numbagrad.kernels.cuda.frontend import {names}


'''

_KEY = '''@cuda.jit(device=True)
def key_of(w, floating, mask):
    """Unsigned key of an element's bits w. {about}"""
    key = {K}(w){floats}
    return {K}(key ^ mask)


@cuda.jit(device=True)
def element_of(key, floating, mask):
    """The bits of the element that has a key."""
    w = {K}(key ^ mask){back}
    return w


@cuda.jit(device=True)
def slot(i):
    """Where word i of a tile lies: with a gap after every 8, threads that take 8 each meet on no bank."""
    return uint32(i + (i >> uint32(3)))
'''

# The keys of -nan would be before that of -inf; the subtraction brings them round to the end.
_FLOATS = """
    if floating:{equal}
        key = {K}(key ^ ({K}({ones:#x}) if key & {K}({top:#x}) else {K}({top:#x})))
        key = {K}(key - {K}({lowest:#x}))"""
_EQUAL = """
        size = {K}(key & {K}({most:#x}))
        key = {K}(0) if size == {K}(0) else key
        key = {K}({most:#x}) if size > {K}({infinite:#x}) else key"""
_BACK = """
    if floating:
        w = {K}(w + {K}({lowest:#x}))
        w = {K}(w ^ ({K}({top:#x}) if w & {K}({top:#x}) else {K}({ones:#x})))"""

_VALUE = '''

@cuda.jit(device=True)
def value_of(x, at, key, floating, mask):
    """Bits of the element x[at] that has this key: only zeros and nans have to be looked up."""
    w = element_of(key, floating, mask){lookup}
    return w
'''
_LOOKUP = """
    if floating:
        size = {K}(w & {K}({most:#x}))
        if size == {K}(0) or size > {K}({infinite:#x}):
            w = x[at]"""

_MERGE = '''

@cuda.jit(device=True)
def split(words, a, na, b, nb, count):
    """How many of the first `count` of two merged runs in shared memory come from the first."""
    low = uint32(count - nb) if count > nb else uint32(0)
    high = min(count, na)
    while low < high:
        middle = uint32((low + high) >> uint32(1))
        if words[slot(uint32(b + count - 1 - middle))] < words[slot(uint32(a + middle))]:
            high = middle
        else:
            low = uint32(middle + 1)
    return low


@cuda.jit(device=True)
def merge({arrays}, i, a_end, j, b_end, {mine}):
    """The next 8 of the runs from i and from j on. Past both ends it is no matter what."""
    a, b = words[slot(i)], words[slot(j)]
    for k in range({each}):
        first = j >= b_end or (i < a_end and not b < a)
        v[k] = a if first else b{merge_place}
        i = uint32(i + 1) if first else i
        j = j if first else uint32(j + 1)
        following = words[slot(i if first else j)]
        a = following if first else a
        b = b if first else following


@cuda.jit(device=True)
def put({arrays}, thread, {mine}):
    """A thread's 8 words in their slots."""
    for k in range({each}):
        words[uint32({gap} * thread + k)] = v[k]{put_place}
'''

_TILE = '''

@cuda.jit(device=True)
def element(s, line, lines, start, count, log):
    """Where the element of slot s lies, which of its line it is, and whether there is one."""
    own = {I}(line + (s >> log))
    i = {I}(start + (s & uint32((uint32(1) << log) - 1)))
    inside = own < lines and i < count
    return {I}({I}(own * count) + i) if inside else {I}(0), i, inside


@cuda.jit
def {name}({parameters}, lines, count, tiles, log, keep, pitch, flags, mask):
    """Sort tiles: parts of 2048 of a line, or lines in 2 ** log slots each; the first `keep` of each are the result."""
    words = cuda.shared.array({room}, {W}){shared_places}
    v = cuda.local.array({each}, {W}){local_places}
    thread = uint32(cuda.threadIdx.x)
    block = {I}(cuda.blockIdx.x)
    line = {I}({I}(block // tiles) * {I}(uint32({tile}) >> log))
    part = {I}(block % tiles)
    start = {I}(part * {I}({tile}))
    floating = (flags & uint32({FLOATING})) != 0
    # all loads before the stores, so that they are on their way together
    if flags & uint32({FIRST}):
        for k in range({each}):
            at, i, inside = element(uint32(thread + {threads} * k), line, lines, start, count, log)
            v[k] = {W}(x[at])
        for k in range({each}):
            s = uint32(thread + {threads} * k)
            at, i, inside = element(s, line, lines, start, count, log)
            key = key_of(v[k], floating, mask)
            words[slot(s)] = {word} if inside else {W}({ones}){first_place}
    else:
        for k in range({each}):
            at, i, inside = element(uint32(thread + {threads} * k), line, lines, start, count, log)
            v[k] = words_in[at]{load_place}
        for k in range({each}):
            s = uint32(thread + {threads} * k)
            at, i, inside = element(s, line, lines, start, count, log)
            words[slot(s)] = v[k] if inside else {W}({ones}){store_place}
    cuda.syncthreads()

    for k in range({each}):
        v[k] = words[uint32({gap} * thread + k)]{get_own_place}
    # odd-even transposition: only neighbours of one line change places, so it is stable
    span = uint32(uint32(1) << log)
    for phase in range({each}):
        for k in range(phase & 1, {each} - 1, 2):
            a, b = v[k], v[k + 1]
            swap = b < a and uint32(k + 1) & uint32(span - 1) != 0
            v[k], v[k + 1] = b if swap else a, a if swap else b{swap_place}
    put({arrays}, thread, {mine})
    cuda.syncthreads()

    run = uint32({each})
    while run < span:
        begin = uint32({each} * thread)
        taken = uint32(begin & uint32(2 * run - 1))
        begin = uint32(begin - taken)
        other = uint32(begin + run)
        i = uint32(begin + split(words, begin, run, other, run, taken))
        j = uint32(other + taken - (i - begin))
        merge({arrays}, i, other, j, uint32(other + run), {mine})
        cuda.syncthreads()
        put({arrays}, thread, {mine})
        cuda.syncthreads()
        run = uint32(2 * run)

    kept = min(keep, {I}(count - start))
    for k in range({each}):
        s = uint32(thread + {threads} * k)
        own, r = {I}(line + (s >> log)), {I}(s & uint32(span - 1))
        if own < lines and r < kept:
            at = {I}({I}(own * pitch) + {I}({I}(part * keep) + r))
            word = words[slot(s)]{get_place}
            if flags & uint32({LAST}):
{emit}
            else:
                words_out[at] = word{pass_place}
'''

_MERGE_TILES = '''

@cuda.jit(device=True)
def split_by_warp(words, a, na, b, nb, count, lane):
    """How many of the first `count` of two merged runs come from the first; 32 threads try 32 places at a time."""
    low = {I}(count - nb) if count > nb else {I}(0)
    high = min(count, na)
    while low < high:
        step = {I}({I}(high - low + 31) >> {I}(5))
        middle = {I}(low + {I}(lane * step))
        before = int32(0)
        if middle < high and not words[{I}(b + {I}(count - 1 - middle))] < words[{I}(a + middle)]:
            before = int32(1)
        for k in range(5):
            before = int32(before + cuda.shfl_xor_sync(0xFFFFFFFF, before, 1 << k))
        # the first `before` places are too low, the next one is high enough
        high = min(high, {I}(low + {I}(step * {I}(before))))
        if before > 0:
            low = {I}(low + {I}({I}(step * {I}(before - 1)) + 1))
    return low


@cuda.jit
def {name}({parameters}, count, run, tiles, keep, flags, mask):
    """Merge neighbouring runs of every line, a tile of the result per block; keep the first `keep` of a line."""
    words = cuda.shared.array({room}, {W}){shared_places}
    cuts = cuda.shared.array(2, {I})
    v = cuda.local.array({each}, {W}){local_places}
    thread = uint32(cuda.threadIdx.x)
    block = {I}(cuda.blockIdx.x)
    line = {I}(block // tiles)
    base = {I}(line * count)
    first = {I}({I}(block % tiles) * {I}({tile}))
    taken = {I}(first & {I}(2 * run - 1))
    begin = {I}(first - taken)
    na = min(run, {I}(count - begin))
    nb = min(run, {I}(count - begin - na))
    total = uint32(min({I}({tile}), {I}(na + nb - taken)))
    one = {I}(base + begin)
    other = {I}(one + na)
    if thread < uint32(64):
        until = taken if thread < uint32(32) else {I}(taken + total)
        cut = split_by_warp(words_in, one, na, other, nb, until, {I}(thread & uint32(31)))
        if thread & uint32(31) == 0:
            cuts[thread >> uint32(5)] = cut
    cuda.syncthreads()
    low = cuts[0]
    own = uint32(cuts[1] - low)
    one = {I}(one + low)
    other = {I}(other + {I}(taken - low))
    for k in range({each}):
        s = uint32(thread + {threads} * k)
        at = {I}(one + s) if s < own else {I}(other + uint32(s - own))
        at = at if s < total else base
        v[k] = words_in[at]{load_place}
    for k in range({each}):
        s = uint32(thread + {threads} * k)
        words[slot(s)] = v[k]{store_place}
    cuda.syncthreads()

    done = min(uint32({each} * thread), total)
    i = split(words, uint32(0), own, own, uint32(total - own), done)
    merge({arrays}, i, own, uint32(own + done - i), total, {mine})
    cuda.syncthreads()
    put({arrays}, thread, {mine})
    cuda.syncthreads()

    floating = (flags & uint32({FLOATING})) != 0
    for k in range({each}):
        s = uint32(thread + {threads} * k)
        r = {I}(first + s)
        if s < total and r < keep:
            at = {I}({I}(line * keep) + r)
            word = words[slot(s)]{get_place}
            if flags & uint32({LAST}):
{emit}
            else:
                words_out[at] = word{pass_place}
'''

_EMIT_KEYS = "                values[at] = element_of(word, floating, mask)"
_EMIT = """                index[at] = int64(place)
                if flags & uint32({VALUES}):
                    source = {I}({I}({line} * count) + {I}(place))
                    values[at] = value_of(x, source, {key}, floating, mask)"""

# What goes along with the words where places are apart.
_PLACES = dict(
    arrays="words, places",
    mine="v, p",
    shared_places="\n    places = cuda.shared.array({room}, uint32)",
    local_places="\n    p = cuda.local.array({each}, uint32)",
    merge_place="\n        p[k] = places[slot(i if first else j)]",
    put_place="\n        places[uint32({gap} * thread + k)] = p[k]",
    first_place="\n            places[slot(s)] = uint32(i)",
    load_place="\n            p[k] = places_in[at]",
    store_place="\n            places[slot(s)] = p[k]",
    get_own_place="\n        p[k] = places[uint32({gap} * thread + k)]",
    swap_place="\n            p[k], p[k + 1] = p[k + 1] if swap else p[k], p[k] if swap else p[k + 1]",
    get_place="\n            place = places[slot(s)]",
    pass_place="\n                places_out[at] = place",
)

SEARCH = '''"""Where values of {b} go into a sorted line of {a}; nan is last."""

from numbagrad.kernels.cuda.frontend import {names}


@cuda.jit
def {name}(line, values, out, count, n):
    i = {I}(cuda.grid(1))
    if i < n:
        q = {T}(values[i])
        low, size = {I}(0), {I}(count)
        while size > {I}(0):
            half = {I}({I}(size + 1) >> {I}(1))
            p = {T}(line[{I}(low + half - 1)])
            low = {I}(low + half) if {before} else low
            size = {I}(size - half)
        out[i] = int64(low)
'''


def _key_text(form: str, bits: int) -> str:
    wide = 64 if bits == 64 else 32
    key = f"uint{wide}"
    infinite = {32: 0x7F800000, 64: 0x7FF0000000000000}[wide]
    top, ones = 1 << (wide - 1), (1 << wide) - 1
    fields = dict(K=key, top=top, ones=ones, most=top - 1, infinite=infinite, lowest=top - 1 - infinite)
    floats = back = lookup = ""
    if bits >= 32:
        floats = _FLOATS.format(**fields, equal="" if form == "keys" else _EQUAL.format(**fields))
        back, lookup = _BACK.format(**fields), _LOOKUP.format(**fields)
    about = "No two elements share one." if form == "keys" else "-0.0 is 0.0, and all nans are one."
    text = _KEY.format(K=key, about=about, floats=floats, back=back)
    return text if form == "keys" else text + _VALUE.format(lookup=lookup)


def _fields(form: str, bits: int, index: str) -> dict[str, object]:
    wide = 64 if bits == 64 or form == "packed" else 32
    numbers = dict(room=ROOM, tile=TILE, each=EACH, gap=EACH + 1, threads=THREADS)
    places = {name: text.format(**numbers) if form == "pairs" else "" for name, text in _PLACES.items()}
    if form != "pairs":
        places |= dict(arrays="words", mine="v")
    word = "uint64((uint64(key) << uint64(32)) | uint64(uint32(i)))" if form == "packed" else "key"
    flags = dict(FIRST=FIRST, LAST=LAST, FLOATING=FLOATING)
    return dict(I=index, W=f"uint{wide}", ones=f"{(1 << wide) - 1:#x}", word=word, **numbers, **places, **flags)


def parameters(form: str, bits: int) -> tuple[list[str], list[str]]:
    """Names and types of a kernel's arrays."""
    item, word = f"u{bits}*", "u64*" if bits == 64 or form == "packed" else "u32*"
    found = [("x", item), ("words_in", word)] + [("places_in", "u32*")] * (form == "pairs")
    found += [("words_out", word)] + [("places_out", "u32*")] * (form == "pairs")
    found += [("index", "i64*")] * (form != "keys") + [("values", item)]
    return [name for name, _ in found], [kind for _, kind in found]


def _emit(form: str, index: str, line: str) -> str:
    if form == "keys":
        return _EMIT_KEYS
    key = "uint32(word >> uint64(32))" if form == "packed" else "word"
    place = "                place = uint32(word)\n" if form == "packed" else ""
    return place + _EMIT.format(VALUES=VALUES, I=index, line=line, key=key)


def _head(title: str, form: str, bits: int) -> str:
    names = "cuda, int32, int64, uint32, uint64"
    return _HEADER.format(title=title, form=form, bits=bits, names=names) + _key_text(form, bits)


@cache
def tile_text(name: str, form: str, bits: int, index: str) -> str:
    """The kernel that sorts tiles."""
    fields = dict(name=name, parameters=", ".join(parameters(form, bits)[0]), emit=_emit(form, index, "own"))
    return _head("Sorted tiles", form, bits) + (_MERGE + _TILE).format(**fields, **_fields(form, bits, index))


@cache
def merge_text(name: str, form: str, bits: int, index: str) -> str:
    """The kernel that merges runs in global memory."""
    fields: dict[str, object] = _fields(form, bits, index)
    fields |= dict(name=name, parameters=", ".join(parameters(form, bits)[0]), emit=_emit(form, index, "line"))
    fields |= {k: str(fields[k]).replace(" " * 12, " " * 8) for k in ("load_place", "store_place")}
    return _head("Merged runs", form, bits) + (_MERGE + _MERGE_TILES).format(**fields)
