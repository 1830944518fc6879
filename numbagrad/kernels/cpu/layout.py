"""Where things lie in a kernel's description and in a job (words of 8 bytes). Shared by Python and native code."""

from __future__ import annotations

# A kernel as `launch` and `prepare` know it; then two words per operand: the step it was compiled for
# (1 or 0; ignored if general) and the item size.
(
    K_ADDRESS,
    K_COUNT,
    K_SHAPE_FROM,
    K_TRUE,
    K_FALSE,
    K_NONE,
    K_LIMIT,
    K_GENERAL,
    K_COUNTED,
    K_OPERANDS,
) = range(10)

# A job; then dims[ndim], ptrs[count], inner steps[count] and extras (elements), strides[ndim][count] (bytes),
# inner strides[count] (bytes).
(
    J_NEXT,
    J_DONE,
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
    J_BODY,
) = range(13)
