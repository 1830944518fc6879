"""Train a convolutional network on scikit-learn's 1,797 handwritten digits (8 x 8 pixels) and test it on a quarter.

Two blocks of convolution, relu and max-pooling, then one dense layer; half of the training digits are shifted and
turned a little, others in every epoch. Exits with status 1 if fewer than 98.5% of the test digits are recognised.
Writes the filters of the first layer and the confusion matrix to examples/out.
"""

from __future__ import annotations

import sys
import time

import numpy as onp
from common import accuracy, arguments, load_digits, save, train
from scipy import ndimage

import numbagrad.numpy as np
from numbagrad import lax, nn, optim, random

CHANNELS, KERNELS = (1, 32, 96), (5, 3)
BATCH = 32
NEEDED = 0.985


def initial(key):
    """Kernels and dense weights of He et al. (2015), zero biases."""
    keys = random.split(key, len(CHANNELS))
    layers = []
    for k, n, m, side in zip(keys, CHANNELS[:-1], CHANNELS[1:], KERNELS):
        kernel = random.normal(k, (m, n, side, side), dtype=onp.float32) * onp.float32((2 / (side * side * n)) ** 0.5)
        layers.append({"w": kernel, "b": np.zeros((m, 1, 1), dtype=onp.float32)})
    features = CHANNELS[-1] * 2 * 2
    dense = random.normal(keys[-1], (features, 10), dtype=onp.float32) * onp.float32((2 / features) ** 0.5)
    return {"blocks": layers, "dense": {"w": dense, "b": np.zeros(10, dtype=onp.float32)}}


def logits(params, x):
    """The network on images (batch, 8, 8): each block halves the sides."""
    h = x[:, None]
    for block in params["blocks"]:
        h = nn.relu(lax.conv_general_dilated(h, block["w"], (1, 1), "SAME") + block["b"])
        h = nn.max_pool(h, (2, 2), strides=(2, 2), channel_axis=1)
    return h.reshape(h.shape[0], -1) @ params["dense"]["w"] + params["dense"]["b"]


def jitter(rng, x):
    """Half of the images turned by up to 10 degrees and shifted by up to half a pixel."""
    changed = x.copy()
    for k in onp.flatnonzero(rng.random(len(x)) < 0.5):
        angle, shift = onp.radians(rng.uniform(-10, 10)), rng.uniform(-0.5, 0.5, 2)
        turn = onp.array([[onp.cos(angle), -onp.sin(angle)], [onp.sin(angle), onp.cos(angle)]])
        ndimage.affine_transform(x[k], turn, 3.5 - turn @ (3.5 + shift), output=changed[k], order=1)
    return changed


def answers(params, x):
    """The digit that each image is taken for."""
    return onp.argmax(onp.asarray(logits(params, x)), axis=1)


def plot_filters(params) -> None:
    """The kernels of the first layer."""
    import matplotlib.pyplot as plt

    kernels = onp.asarray(params["blocks"][0]["w"])[:, 0]
    largest = onp.abs(kernels).max()
    figure, grid = plt.subplots(4, 8, figsize=(8, 4.4))
    for axes, kernel in zip(grid.flat, kernels):
        axes.imshow(kernel, cmap="RdBu", vmin=-largest, vmax=largest)
        axes.axis("off")
    figure.suptitle("Filters of the first layer (blue adds, red subtracts)")
    save(figure, "digits_cnn_filters.png")


def plot_confusion(taken, labels) -> None:
    """How often each digit was taken for each."""
    import matplotlib.pyplot as plt

    counts = onp.zeros((10, 10), int)
    onp.add.at(counts, (labels, taken), 1)
    figure, axes = plt.subplots(figsize=(6, 5.4))
    axes.imshow(counts**0.5, cmap="Blues")
    for i, j in onp.argwhere(counts > 0):
        axes.text(j, i, counts[i, j], ha="center", va="center", color="white" if i == j else "#c0392b")
    axes.set(xlabel="taken for", ylabel="is", xticks=range(10), yticks=range(10))
    axes.set_title(f"Test digits: {accuracy(taken, labels):.2%} recognised")
    save(figure, "digits_cnn_confusion.png")


def main() -> int:
    """Train, test, draw."""
    chosen = arguments(
        __doc__,
        epochs=dict(default=40, help="passes over the training digits"),
        rate=dict(default=1e-3, help="first learning rate, which falls to zero along a cosine"),
        seed=dict(default=0, help="of the split, the weights, the shuffling and the shifts"),
    )
    epochs = min(chosen.epochs, 30) if chosen.quick else chosen.epochs
    x_train, x_test, y_train, y_test = load_digits(chosen.seed)
    x_train, x_test = x_train.reshape(-1, 8, 8), x_test.reshape(-1, 8, 8)
    steps = epochs * (len(x_train) // BATCH)
    start = time.perf_counter()
    params, history = train(
        logits,
        initial(random.key(chosen.seed)),
        x_train,
        y_train,
        epochs=epochs,
        batch=BATCH,
        rate=optim.cosine_decay(chosen.rate, steps),
        seed=chosen.seed,
        device=chosen.device,
        change=jitter,
    )
    print(f"{len(history)} steps in {time.perf_counter() - start:.1f} s, loss {history[0]:.3f} -> {history[-1]:.4f}")
    taken = answers(params, x_test)
    trained, tested = accuracy(answers(params, x_train), y_train), accuracy(taken, y_test)
    print(f"accuracy: train {trained:.2%}, test {tested:.2%} of {len(y_test)} digits")
    if not chosen.quick:
        plot_filters(params)
        plot_confusion(taken, y_test)
    if tested < NEEDED:
        print(f"the test accuracy is below {NEEDED:.1%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
