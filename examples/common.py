"""What the examples share: the command line, where pictures go, and training on the handwritten digits."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as onp

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import nn, optim

OUT = Path(__file__).parent / "out"


def arguments(doc: str, **options: dict) -> argparse.Namespace:
    """--device, --quick and the example's own options, each given as `name=dict(default=..., help=...)`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--device", default="cpu", help="where the arrays are: cpu, cuda, cuda:1, ...")
    parser.add_argument("--quick", action="store_true", help="fewer steps, no pictures: a test that all works")
    for name, option in options.items():
        default = option["default"]
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), **option)
    chosen = parser.parse_args()
    try:
        ng.device_put(0.0, chosen.device)
    except ng.DeviceError as error:
        parser.error(f"--device: {str(error).removeprefix('device_put: ')}")
    return chosen


def save(figure, name: str) -> None:
    """Write a figure to examples/out and say so."""
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / name, dpi=110, bbox_inches="tight")
    print(f"wrote {OUT / name}")


def load_digits(seed: int):
    """scikit-learn's digits: pixels scaled to [0, 1] in float32 and labels, three quarters to train, one to test."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    pixels, labels = datasets.load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(onp.float32)
    return train_test_split(pixels, labels, test_size=0.25, random_state=seed, stratify=labels)


def train(logits, params, x, labels, *, epochs: int, batch: int, rate, seed: int, device: str = "cpu", change=None):
    """Adam on shuffled minibatches of the mean cross-entropy; the parameters and the loss of every step.

    Parameters and data are put on the device once. `change(rng, x)` may alter the pixels of a minibatch, so that no
    two epochs see the same: then each minibatch is sent. The losses are looked at after an epoch, not to wait before.
    """
    from tqdm import trange

    def loss(params, x, labels):
        return np.mean(nn.softmax_cross_entropy_with_integer_labels(logits(params, x), labels))

    params = ng.device_put(params, device)
    seen, known = (x, labels) if change is not None else ng.device_put((x, labels), device)
    optimizer = optim.adam(rate)
    state = optimizer.init(params)
    step = ng.value_and_grad(loss)
    rng = onp.random.default_rng(seed)
    history = []
    with trange(epochs, unit="epoch") as bar:
        for _ in bar:
            order = rng.permutation(len(x))
            losses = []
            for start in range(0, len(x) - batch + 1, batch):
                rows = order[start : start + batch]
                pixels = seen[rows] if change is None else change(rng, seen[rows])
                value, grads = step(params, pixels, known[rows])
                params, state = optimizer.update(grads, state, params)
                losses.append(value)
            history += [float(value) for value in losses]
            bar.set_postfix(loss=f"{history[-1]:.4f}")
    return params, history


def accuracy(answers, labels) -> float:
    """Share of digits recognised."""
    return float(onp.mean(onp.asarray(answers) == labels))
