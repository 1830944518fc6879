"""Train a small network on scikit-learn's 1,797 handwritten digits (8 x 8 pixels) and test it on a quarter of them.

Exits with status 1 if fewer than 97% of the test digits are recognised. Writes the loss curve and a sheet of test
digits with the network's answers to examples/out.
"""

from __future__ import annotations

import sys
import time

import numpy as onp
from common import accuracy, arguments, load_digits, save, train

import numbagrad.numpy as np
from numbagrad import nn, random

WIDTHS = (64, 128, 64, 10)
BATCH = 128
NEEDED = 0.97


def initial(key):
    """Weights of He et al. (2015) and zero biases, one pair a layer."""
    layers = []
    for k, n, m in zip(random.split(key, len(WIDTHS) - 1), WIDTHS[:-1], WIDTHS[1:], strict=True):
        weight = random.normal(k, (n, m), dtype=onp.float32) * (2 / n) ** 0.5
        layers.append({"w": weight.astype(onp.float32), "b": np.zeros(m, dtype=onp.float32)})
    return layers


def logits(params, x):
    """The network: linear layers with relu between."""
    *hidden, last = params
    for layer in hidden:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def answers(params, x):
    """The digit that each image is taken for."""
    return onp.argmax(onp.asarray(logits(params, x)), axis=1)


def plot_loss(history, epochs: int) -> None:
    """The loss of each step, and its running mean over an epoch."""
    import matplotlib.pyplot as plt

    per_epoch = len(history) // epochs
    smooth = onp.convolve(history, onp.ones(per_epoch) / per_epoch, mode="valid")
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.semilogy(onp.arange(len(history)) / per_epoch, history, color="#b8c4d6", lw=0.8, label="minibatch")
    axes.semilogy(1 + onp.arange(len(smooth)) / per_epoch, smooth, color="#1f4e8c", lw=2, label="mean of an epoch")
    axes.set(xlabel="epoch", ylabel="cross-entropy (nats)", title="Training on the digits data")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, "digits_mlp_loss.png")


def plot_digits(params, x, labels) -> None:
    """Every mistake on the test digits first, then right answers, with the network's confidence."""
    import matplotlib.pyplot as plt

    chances = onp.exp(onp.asarray(nn.log_softmax(logits(params, x))))
    taken = chances.argmax(axis=1)
    shown = onp.argsort(taken == labels, kind="stable")[:40]
    figure, grid = plt.subplots(5, 8, figsize=(9, 6.8))
    for axes, k in zip(grid.flat, shown, strict=True):
        right = taken[k] == labels[k]
        axes.imshow(x[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        text = f"{taken[k]}" if right else f"{taken[k]}, is {labels[k]}"
        axes.set_title(f"{text}  ({chances[k].max():.0%})", fontsize=9, color="black" if right else "#c0392b")
        axes.axis("off")
    figure.suptitle("Test digits: the network's answer and confidence (mistakes in red)")
    figure.tight_layout()
    save(figure, "digits_mlp_predictions.png")


def main() -> int:
    """Train, test, draw."""
    chosen = arguments(
        __doc__,
        epochs=dict(default=40, help="passes over the training digits"),
        rate=dict(default=2e-3, help="learning rate"),
        seed=dict(default=0, help="of the split, the weights and the shuffling"),
    )
    epochs = min(chosen.epochs, 20) if chosen.quick else chosen.epochs
    x_train, x_test, y_train, y_test = load_digits(chosen.seed)
    params = initial(random.key(chosen.seed))
    start = time.perf_counter()
    options = dict(epochs=epochs, batch=BATCH, rate=chosen.rate, seed=chosen.seed, device=chosen.device)
    params, history = train(logits, params, x_train, y_train, **options)
    seconds = time.perf_counter() - start
    trained, tested = accuracy(answers(params, x_train), y_train), accuracy(answers(params, x_test), y_test)
    print(f"{len(history)} steps in {seconds:.1f} s, loss {history[0]:.3f} -> {history[-1]:.4f}")
    print(f"accuracy: train {trained:.2%}, test {tested:.2%} of {len(y_test)} digits")
    if not chosen.quick:
        plot_loss(history, epochs)
        plot_digits(params, x_test, y_test)
    if tested < NEEDED:
        print(f"the test accuracy is below {NEEDED:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
