"""Windows, convolution, segments, order and running results at real sizes: value and gradient."""

import numpy as onp

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn, ops

SIZES = {"image": (8, 32, 64, 64), "row": (1_000_000,)}


def operands(dtype):
    """Random operands by name."""
    rng = onp.random.default_rng(0)
    made = {name: rng.normal(size=shape).astype(dtype) for name, shape in SIZES.items()}
    made["kernel"] = rng.normal(size=(64, 32, 3, 3)).astype(dtype)
    made["plane"] = rng.normal(size=(32, 1, 3, 3)).astype(dtype)
    return {name: np.asarray(x) for name, x in made.items()}


IDS = onp.random.default_rng(1).integers(0, 10_000, SIZES["row"]).astype(onp.int32)
PROGRAMS = {
    "conv 3x3": (("image", "kernel"), lambda x, w: lax.conv(x, w, (1, 1), "SAME")),
    "conv 3x3, stride 2": (("image", "kernel"), lambda x, w: lax.conv(x, w, (2, 2), "SAME")),
    "conv 3x3, depthwise": (
        ("image", "plane"),
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=32),
    ),
    "max pool 3/2": (("image",), lambda x: nn.max_pool(x, (3, 3), (2, 2), "SAME", channel_axis=1)),
    "average pool 2/2": (("image",), lambda x: nn.avg_pool(x, (2, 2), (2, 2), channel_axis=1)),
    "segment sum": (("row",), lambda x: ops.segment_sum(x, IDS, 10_000)),
    "segment max": (("row",), lambda x: ops.segment_max(x, IDS, 10_000)),
    "segment logsumexp": (("row",), lambda x: ops.segment_logsumexp(x, IDS, 10_000)),
    "sort": (("row",), np.sort),
    "median": (("row",), np.median),
    "top_k": (("row",), lambda x: lax.top_k(x, 100)[0]),
    "cumsum": (("row",), np.cumsum),
    "cumprod": (("row",), np.cumprod),
    "cummax": (("row",), lax.cummax),
    "cumlogsumexp": (("row",), lax.cumlogsumexp),
}


class Structural:
    """Each on its operands."""

    params = (list(PROGRAMS), ["float32", "float64"])
    param_names = ["program", "dtype"]

    def setup(self, name, dtype):
        names, function = PROGRAMS[name]
        have = operands(dtype)
        self.args = [have[n] for n in names]
        self.function = function
        self.step = ng.value_and_grad(lambda *xs: np.sum(function(*xs) ** 2), tuple(range(len(names))))
        self.step(*self.args)

    def time_forward(self, name, dtype):
        self.function(*self.args)

    def time_gradient(self, name, dtype):
        self.step(*self.args)

    def peakmem_gradient(self, name, dtype):
        self.step(*self.args)
