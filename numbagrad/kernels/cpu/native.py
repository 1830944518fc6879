"""The outer loops of every CPU kernel, written in Numba and compiled once per machine.

`launch` is called from Python like any builtin function: `launch(*inputs, *outputs)`. It reads the arrays'
own headers, checks that the kernel fits their memory layout and runs it: 0.1 us from Python for a small array,
where Numba's dispatcher takes 0.3 and unpacking in Python several. `apply` makes the outputs too; for arrays that
are not just what the kernel was made for it declines, and the caller takes the longer way. `prepare` writes the
same plan into a job that several threads can work on; `drive` is what each of them runs. No maths here.

A job is an array of words: see layout.py. Its rows are cut into pieces of fixed size, so that results do not depend on
who did what, and the pieces into spans, one a thread, so that a thread finds in its cache what it wrote in the job
before. They are claimed from atomic counters: a thread that is never scheduled costs nothing.
"""

from __future__ import annotations

from numba import njit, types

from numbagrad.kernels.cpu.abi import (
    MAX_DIMS,
    WORDS,
    call_c1,
    call_c3,
    call_c4,
    call_kernel,
    fetch_add,
    int32_at,
    load_word,
    offset,
    stack_grid,
    stack_operands,
    swap_word,
    words_at,
)
from numbagrad.kernels.cpu.layout import (
    ASLEEP,
    AWAKE,
    J_BATCH,
    J_BODY,
    J_CHUNK,
    J_COUNT,
    J_DONE,
    J_EXTRA,
    J_GUESTS,
    J_KERNEL,
    J_N,
    J_NDIM,
    J_NEXT,
    J_PIECES,
    J_ROWS,
    J_SPANS,
    J_SPLITS,
    K_ADDRESS,
    K_COUNT,
    K_EMPTY,
    K_FALSE,
    K_GENERAL,
    K_INCREF,
    K_INPUTS,
    K_LIMIT,
    K_NONE,
    K_OPERANDS,
    K_SET_ITEM,
    K_SHAPE_FROM,
    K_TRUE,
    K_TUPLE,
    MAILBOX,
    MAX_SPANS,
    O_DTYPE,
    O_ITEM,
    O_STEP,
    O_WORDS,
)

# --- the header of a numpy.ndarray: PyObject_HEAD, data, nd, dimensions, strides, base, descr, flags
HEAD = object.__basicsize__
DATA, ND, DIMS, STRIDES, DTYPE, FLAGS = HEAD // 8, HEAD + 8, HEAD // 8 + 2, HEAD // 8 + 3, HEAD // 8 + 5, HEAD + 48
C_CONTIGUOUS = 1

_helper = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)

LAUNCH_SIGNATURE = types.int64(types.int64, WORDS, types.int64)
DRIVE_SIGNATURE = types.void(types.int64, types.int64, types.int64)


@_helper
def _answer(kernel, which):
    """A new reference to True, False or None."""
    call_c1(kernel[K_INCREF], kernel[which])
    return kernel[which]


@_helper
def _step(kernel, k):
    return kernel[K_OPERANDS + O_WORDS * k + O_STEP]


@_helper
def _same_run(kernel, args, count):
    """Size, if every operand is one contiguous run of the same shape or one element over and over; else -1."""
    shape_address = args[kernel[K_SHAPE_FROM]]
    ndim = int32_at(shape_address + ND)
    dims = words_at(words_at(shape_address)[DIMS])
    size = 1
    for d in range(ndim):
        size *= dims[d]
    for k in range(count):
        array = words_at(args[k])
        other_ndim = int32_at(args[k] + ND)
        other = words_at(array[DIMS])
        if _step(kernel, k) == 0:
            if other_ndim > ndim:
                return -1
            steps = words_at(array[STRIDES])
            for d in range(other_ndim):
                if other[d] != 1 and (steps[d] != 0 or other[d] != dims[d + ndim - other_ndim]):
                    return -1
        else:
            if other_ndim != ndim or (int32_at(args[k] + FLAGS) & C_CONTIGUOUS) == 0:
                return -1
            for d in range(ndim):
                if other[d] != dims[d]:
                    return -1
    return size


@_helper
def _grid(kernel, args, count, dims, strides):
    """Write the outputs' shape and every operand's byte strides, axes sorted and merged; return their number.

    `strides[d * count + k]` is operand k's stride along axis d. Axes of length 1 vanish; axes are put in
    the memory order of the first output, and neighbours that are one run for everybody are merged.
    """
    shape_array = words_at(args[kernel[K_INPUTS]])
    ndim = int32_at(args[kernel[K_INPUTS]] + ND)
    shape = words_at(shape_array[DIMS])
    order = words_at(shape_array[STRIDES])
    used = 0
    for axis in range(ndim):
        if shape[axis] == 1:
            continue
        # insertion sort by descending stride of the output keeps the inner loop on its fastest axis
        place = used
        while place > 0 and abs(dims[MAX_DIMS + place - 1]) < abs(order[axis]):
            place -= 1
        for d in range(used, place, -1):
            dims[d] = dims[d - 1]
            dims[MAX_DIMS + d] = dims[MAX_DIMS + d - 1]
            for k in range(count):
                strides[d * count + k] = strides[(d - 1) * count + k]
        dims[place] = shape[axis]
        dims[MAX_DIMS + place] = order[axis]
        for k in range(count):
            array = words_at(args[k])
            back = int32_at(args[k] + ND) - ndim + axis
            step = 0
            if back >= 0 and words_at(array[DIMS])[back] != 1:
                step = words_at(array[STRIDES])[back]
            strides[place * count + k] = step
        used += 1
    return _merge(count, dims, strides, used)


@_helper
def _merge(count, dims, strides, used):
    """Merge neighbouring axes that form one run for every operand; return the number left (at least 1)."""
    if used == 0:
        dims[0] = 1
        for k in range(count):
            strides[k] = 0
        return 1
    last = 0
    for d in range(1, used):
        joined = True
        for k in range(count):
            if strides[last * count + k] != dims[d] * strides[d * count + k]:
                joined = False
        if joined:
            dims[last] *= dims[d]
        else:
            last += 1
            dims[last] = dims[d]
        for k in range(count):
            strides[last * count + k] = strides[d * count + k]
    return last + 1


@_helper
def _fits(kernel, count, n, strides, inner):
    """Write the inner steps in elements; True if the kernel was compiled for them."""
    if n == 1:
        for k in range(count):
            inner[k] = 0
        return kernel[K_GENERAL] == 0
    general = kernel[K_GENERAL] != 0
    special = True
    matches = True
    inputs = kernel[K_INPUTS]
    for k in range(count):
        item = kernel[K_OPERANDS + O_WORDS * k + O_ITEM]
        step = strides[k] // item
        inner[k] = step
        if step * item != strides[k]:
            return False
        if step != 0 and step != 1:
            special = False
        if k >= inputs and step != 1:
            special = False
        if step != _step(kernel, k):
            matches = False
    return (not special) if general else matches


@_helper
def _advance(count, ndim, dims, strides, index, ptrs):
    """Move the pointers to the next row; False after the last one."""
    for d in range(ndim - 2, -1, -1):
        index[d] += 1
        if index[d] < dims[d]:
            for k in range(count):
                ptrs[k] += strides[d * count + k]
            return True
        index[d] = 0
        for k in range(count):
            ptrs[k] -= (dims[d] - 1) * strides[d * count + k]
    return False


def apply(self, args, nargs):
    """Run a kernel on small arrays of just its types and layout: new outputs (a tuple of several); else None."""
    kernel = words_at(words_at(self)[DATA])
    inputs, count = kernel[K_INPUTS], kernel[K_COUNT]
    for k in range(inputs):
        if words_at(args[k])[DTYPE] != kernel[K_OPERANDS + O_WORDS * k + O_DTYPE]:
            return _answer(kernel, K_NONE)
    size = _same_run(kernel, args, inputs)
    if size < 0 or size >= kernel[K_LIMIT]:
        return _answer(kernel, K_NONE)
    operands = stack_operands()
    for k in range(inputs):
        operands[k] = words_at(args[k])[DATA]
    shape = args[kernel[K_SHAPE_FROM]]
    dims = words_at(shape)[DIMS]
    made = stack_operands()
    for k in range(inputs, count):
        dtype = kernel[K_OPERANDS + O_WORDS * k + O_DTYPE]
        call_c1(kernel[K_INCREF], dtype)  # PyArray_Empty steals a reference
        made[k] = call_c4(kernel[K_EMPTY], int32_at(shape + ND), dims, dtype, 0)
        if made[k] == 0:
            return 0  # with a MemoryError set
        operands[k] = words_at(made[k])[DATA]
    if size > 0:
        call_kernel(kernel[K_ADDRESS], size, operands, operands)
    if count - inputs == 1:
        return made[inputs]
    result = call_c1(kernel[K_TUPLE], count - inputs)
    if result != 0:
        for k in range(inputs, count):
            call_c3(kernel[K_SET_ITEM], result, k - inputs, made[k])
    return result


def launch(self, args, nargs):
    """Run a kernel on arrays now. Returns True; False: another layout variant is needed; None: too large."""
    kernel = words_at(words_at(self)[DATA])
    count = kernel[K_COUNT]
    operands = stack_operands()
    size = -1
    if kernel[K_GENERAL] == 0:
        size = _same_run(kernel, args, count)
    if size >= kernel[K_LIMIT]:
        return _answer(kernel, K_NONE)
    if size >= 0:
        for k in range(count):
            operands[k] = words_at(args[k])[DATA]
            operands[count + k] = _step(kernel, k)
        if size > 0:
            call_kernel(kernel[K_ADDRESS], size, operands, words_at(offset(operands, count)))
        return _answer(kernel, K_TRUE)
    grid = stack_grid()
    strides = words_at(offset(grid, 3 * MAX_DIMS))
    ndim = _grid(kernel, args, count, grid, strides)
    inner = words_at(offset(operands, count))
    size = 1
    for d in range(ndim):
        size *= grid[d]
    if size == 0:
        return _answer(kernel, K_TRUE)
    if not _fits(kernel, count, grid[ndim - 1], words_at(offset(strides, (ndim - 1) * count)), inner):
        return _answer(kernel, K_FALSE)
    if size >= kernel[K_LIMIT]:
        return _answer(kernel, K_NONE)
    index = words_at(offset(grid, 2 * MAX_DIMS))
    for d in range(ndim):
        index[d] = 0
    for k in range(count):
        operands[k] = words_at(args[k])[DATA]
    more = True
    while more:
        call_kernel(kernel[K_ADDRESS], grid[ndim - 1], operands, inner)
        more = _advance(count, ndim, grid, strides, index, operands)
    return _answer(kernel, K_TRUE)


def reduce(self, args, nargs):
    """Run a row kernel on (x, out): every row of a small contiguous x. True; None if x is large or strided."""
    kernel = words_at(words_at(self)[DATA])
    size, rows = 1, 1
    for d in range(int32_at(args[0] + ND)):
        size *= words_at(words_at(args[0])[DIMS])[d]
    for d in range(int32_at(args[1] + ND)):
        rows *= words_at(words_at(args[1])[DIMS])[d]
    if size >= kernel[K_LIMIT] or rows == 0 or (int32_at(args[0] + FLAGS) & C_CONTIGUOUS) == 0:
        return _answer(kernel, K_NONE)
    operands = stack_operands()
    operands[0], operands[1] = words_at(args[0])[DATA], words_at(args[1])[DATA]
    n = size // rows
    for _ in range(rows):
        call_kernel(kernel[K_ADDRESS], n, operands, operands)
        operands[0] += n * kernel[K_OPERANDS + O_ITEM]
        operands[1] += kernel[K_OPERANDS + O_WORDS + O_ITEM]
    return _answer(kernel, K_TRUE)


def prepare(self, args, nargs):
    """Write the plan of a large launch into the job array, the last argument. True, or False as `launch`."""
    kernel = words_at(words_at(self)[DATA])
    count = kernel[K_COUNT]
    job = words_at(words_at(args[count])[DATA])
    grid = stack_grid()
    operands = stack_operands()
    strides = words_at(offset(grid, 3 * MAX_DIMS))
    ndim = _grid(kernel, args, count, grid, strides)
    if not _fits(kernel, count, grid[ndim - 1], words_at(offset(strides, (ndim - 1) * count)), operands):
        for k in range(count):
            job[J_BODY + k] = operands[k]  # tells the caller which variant to make
        return _answer(kernel, K_FALSE)
    rows = 1
    for d in range(ndim - 1):
        rows *= grid[d]
    n = grid[ndim - 1]
    chunk = job[J_CHUNK]
    splits = (n + chunk - 1) // chunk
    batch = 1
    if splits == 1 and n > 0:
        batch = max(1, chunk // n)
    for k in range(MAX_SPANS):
        job[J_NEXT + k] = 0
    job[J_DONE] = 0
    job[J_GUESTS] = 0
    job[J_PIECES] = splits * ((rows + batch - 1) // batch)
    job[J_KERNEL] = kernel[K_ADDRESS]
    job[J_COUNT] = count
    job[J_EXTRA] = 0
    job[J_N] = n
    job[J_SPLITS] = splits
    job[J_BATCH] = batch
    job[J_ROWS] = rows
    job[J_NDIM] = ndim - 1
    at = J_BODY
    for d in range(ndim - 1):
        job[at + d] = grid[d]
    at += ndim - 1
    for k in range(count):
        job[at + k] = words_at(args[k])[DATA]
        job[at + count + k] = operands[k]
    at += 2 * count
    for d in range((ndim - 1) * count):
        job[at + d] = strides[d]
    at += (ndim - 1) * count
    for k in range(count):
        job[at + k] = strides[(ndim - 1) * count + k]
    return _answer(kernel, K_TRUE)


@_helper
def _run_piece(job, piece, operands):
    """One piece: a part of one long row, or several short rows."""
    count, ndim, splits, batch = job[J_COUNT], job[J_NDIM], job[J_SPLITS], job[J_BATCH]
    dims = words_at(offset(job, J_BODY))
    ptrs = words_at(offset(dims, ndim))
    inner = words_at(offset(ptrs, count))
    strides = words_at(offset(inner, count + job[J_EXTRA]))
    inner_bytes = words_at(offset(strides, ndim * count))
    start = (piece % splits) * job[J_CHUNK] if splits > 1 else 0
    n = min(job[J_CHUNK], job[J_N] - start) if splits > 1 else job[J_N]
    first = (piece // splits) * batch
    for row in range(first, min(first + batch, job[J_ROWS])):
        for k in range(count):
            operands[k] = ptrs[k] + start * inner_bytes[k]
        rest = row
        for d in range(ndim - 1, -1, -1):
            i = rest % dims[d]
            rest = rest // dims[d]
            for k in range(count):
                operands[k] += i * strides[d * count + k]
        call_kernel(job[J_KERNEL], n, operands, inner)


@_helper
def _claim_pieces(job, who):
    """Run pieces until every one is claimed, those of one's own span first."""
    operands = stack_operands()
    pieces, spans = job[J_PIECES], job[J_SPANS]
    for k in range(spans):
        span = (who + k) % spans
        first = pieces * span // spans
        count = pieces * (span + 1) // spans - first
        piece = fetch_add(job, J_NEXT + span, 1)
        while piece < count:
            _run_piece(job, first + piece, operands)
            fetch_add(job, J_DONE, 1)
            piece = fetch_add(job, J_NEXT + span, 1)


def drive(job_address, mailboxes, workers):
    """The caller's part of a job: hand it to workers that are awake, work too, wait for what others claimed."""
    job = words_at(job_address)
    boxes = words_at(mailboxes)
    for k in range(workers):
        fetch_add(job, J_GUESTS, 1)
        if swap_word(boxes, k * MAILBOX, AWAKE, job_address) == 0:
            fetch_add(job, J_GUESTS, -1)
    _claim_pieces(job, 0)
    while load_word(job, J_DONE) < job[J_PIECES] or load_word(job, J_GUESTS) > 0:
        pass


def dismiss(job_address, mailboxes, workers):
    """Send workers that look out for a job to sleep."""
    for k in range(workers):
        swap_word(words_at(mailboxes), k * MAILBOX, AWAKE, ASLEEP)


def serve(job_address, mailbox, patience):
    """A worker's part of a job; then look out for the next, which often comes within microseconds."""
    box = words_at(mailbox)
    _claim_pieces(words_at(job_address), box[1])
    box[0] = AWAKE
    waited = 0
    while True:
        word = load_word(box, 0)
        if word == ASLEEP:
            return
        if word != AWAKE:
            job = words_at(word)
            _claim_pieces(job, box[1])
            box[0] = AWAKE  # before leaving: the job's memory may be gone afterwards
            fetch_add(job, J_GUESTS, -1)
            waited = 0
        waited += 1
        if waited > patience and swap_word(box, 0, AWAKE, ASLEEP) != 0:
            return
