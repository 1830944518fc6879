"""Logistic regression on the Wisconsin breast cancer data with SciPy's Newton method.

`ng.value_and_grad` gives SciPy the loss and its gradient, `ng.hvp` products with the Hessian: the matrix itself is
never formed.
"""

from __future__ import annotations

import sys
import time

import numpy as onp
from common import arguments
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import numbagrad as ng
import numbagrad.numpy as np

NEEDED = 0.95


def load(seed: int):
    """Features standardised by the training set, with a column of ones; labels -1 (malignant) and 1."""
    x, labels = load_breast_cancer(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, 2.0 * labels - 1, test_size=0.25, random_state=seed)
    mean, scale = x_train.mean(axis=0), x_train.std(axis=0)
    x_train, x_test = (onp.c_[(part - mean) / scale, onp.ones(len(part))] for part in (x_train, x_test))
    return x_train, x_test, y_train, y_test


def main() -> int:
    """Fit with Newton's method and test."""
    chosen = arguments(
        __doc__,
        penalty=dict(default=1.0, help="weight of the squared coefficients"),
        seed=dict(default=0, help="of the split"),
    )
    x_train, x_test, y_train, y_test = load(chosen.seed)
    features, labels = ng.device_put((x_train, y_train), chosen.device)

    def loss(w):
        w = ng.device_put(w, chosen.device)  # SciPy's numbers are the CPU's, and so is the gradient it gets
        margins = labels * (features @ w)
        return np.sum(np.logaddexp(0.0, -margins)) + 0.5 * chosen.penalty * np.sum(w[:-1] ** 2)

    start = time.perf_counter()
    found = minimize(
        ng.value_and_grad(loss),
        onp.zeros(x_train.shape[1]),
        jac=True,
        hessp=lambda w, v: ng.hvp(loss, w, v),
        method="trust-ncg",
    )
    seconds = time.perf_counter() - start
    train, test = (onp.mean(onp.sign(x @ found.x) == y) for x, y in ((x_train, y_train), (x_test, y_test)))
    print(f"loss {found.fun:.4f}, |gradient| {onp.linalg.norm(found.jac):.1e}: {found.nit} Newton steps,", end=" ")
    print(f"{found.nhev} Hessian products in {seconds:.2f} s")
    print(f"accuracy: train {train:.2%}, test {test:.2%} of {len(y_test)} patients")
    return 0 if found.success and test >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
