"""Where things lie in a kernel's description and in a job (words of 8 bytes). Shared by Python and native code."""

from __future__ import annotations

# A kernel as the native entries know it: code, operands, where to read the shape, answers, C functions.
(
    K_ADDRESS,
    K_COUNT,
    K_INPUTS,
    K_SHAPE_FROM,
    K_LIMIT,
    K_GENERAL,
    K_TRUE,
    K_FALSE,
    K_NONE,
    K_INCREF,
    K_EMPTY,
    K_TUPLE,
    K_SET_ITEM,
    K_OPERANDS,
) = range(14)
# Then per operand the step the kernel was compiled for (1 or 0; ignored if general), item size and dtype object.
O_STEP, O_ITEM, O_DTYPE, O_WORDS = range(4)

# A job; then dims[ndim], ptrs[count], inner steps[count] and extras (elements), strides[ndim][count] (bytes),
# inner strides[count] (bytes).
(
    J_DONE,
    J_GUESTS,  # workers that were handed the job's address and have not left it
    J_PIECES,
    J_KERNEL,
    J_COUNT,
    J_EXTRA,
    J_N,
    J_CHUNK,
    J_SPLITS,
    J_BATCH,
    J_ROWS,
    J_NDIM,
    J_SPANS,  # the pieces are cut into as many runs, one a thread, which helps with others' when its own is done
    J_NEXT,  # a counter each of them
) = range(14)
MAX_SPANS = 8
J_BODY = J_NEXT + MAX_SPANS

# A worker's mailbox: asleep in Python, looking out for a job, or (any other value) the address of one.
ASLEEP, AWAKE = range(2)
MAILBOX = 8  # words: a cache line each
