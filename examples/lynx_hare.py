"""Fit the Lotka-Volterra equations to the Hudson Bay Company's lynx and hare pelts of 1900-1920.

The solver is a Runge-Kutta loop in plain Python: the gradient goes through all of its steps. Parameters are fitted by
maximum likelihood under log-normal errors (Carpenter 2018, "Predator-Prey Population Dynamics: the Lotka-Volterra
model in Stan"; posterior means there: alpha 0.55, beta 0.028, gamma 0.80, delta 0.024).
"""

from __future__ import annotations

import sys
import time

import numpy as onp
from common import arguments, save
from scipy.optimize import minimize

import numbagrad as ng
import numbagrad.numpy as np

YEARS = onp.arange(1900, 1921)
HARE = "30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7"
LYNX = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"
PELTS = onp.array([[float(v) for v in text.split()] for text in (HARE, LYNX)]).T  # thousands; hare, lynx

NAMES = ("alpha", "beta", "gamma", "delta")
PUBLISHED = {"alpha": 0.55, "beta": 0.028, "gamma": 0.80, "delta": 0.024}
START = {"alpha": 0.6, "beta": 0.03, "gamma": 0.7, "delta": 0.03, "hare": 30.0, "lynx": 5.0}
STEPS = 8  # Runge-Kutta steps a year


def growth(z, rates):
    """d(hare, lynx)/dt: hares breed and are eaten, lynxes starve and eat."""
    alpha, beta, gamma, delta = (rates[k] for k in range(4))
    hare, lynx = z[0], z[1]
    return np.stack([(alpha - beta * lynx) * hare, (delta * hare - gamma) * lynx])


def solve(rates, z, years: int, steps: int):
    """Populations at the start of each year, by the classical fourth-order Runge-Kutta method."""
    h = 1.0 / steps
    path = [z]
    for _ in range(years - 1):
        for _ in range(steps):
            k1 = growth(z, rates)
            k2 = growth(z + h / 2 * k1, rates)
            k3 = growth(z + h / 2 * k2, rates)
            k4 = growth(z + h * k3, rates)
            z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(z)
    return np.stack(path)


def loss(logs):
    """Half the sum of squared log errors; the parameters are logarithms, so that they stay positive."""
    path = solve(np.exp(logs[:4]), np.exp(logs[4:]), len(YEARS), STEPS)
    return 0.5 * np.sum((np.log(path) - np.log(PELTS)) ** 2)


def fit(iterations: int, device: str):
    """BFGS from a rough start; SciPy's result. The equations are solved on the device, steps are SciPy's."""
    start = onp.log(list(START.values()))
    there = ng.value_and_grad(lambda logs: loss(ng.device_put(logs, device)))
    return minimize(there, start, jac=True, method="BFGS", options={"maxiter": iterations})


def plot(logs) -> None:
    """The pelts and the fitted cycle."""
    import matplotlib.pyplot as plt

    path = onp.asarray(dense(logs))
    time_axis = YEARS[0] + onp.arange(len(path)) / STEPS
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(2, 1))
    for k, (name, colour) in enumerate((("hare", "#1f6f8b"), ("lynx", "#c0562b"))):
        left.plot(time_axis, path[:, k], color=colour, lw=2, label=f"{name}, fitted")
        left.plot(YEARS, PELTS[:, k], "o", color=colour, ms=5, label=f"{name}, pelts")
    left.set(xlabel="year", ylabel="pelts (thousands)", title="Hudson Bay pelts and the fitted Lotka-Volterra cycle")
    left.set_xticks(range(1900, 1921, 4))
    left.legend(ncols=2, fontsize=9, loc="upper right")
    left.set_ylim(0, 115)
    right.plot(path[:, 0], path[:, 1], color="#555555", lw=1.5)
    right.plot(PELTS[:, 0], PELTS[:, 1], "o-", color="#bbbbbb", ms=4, lw=0.6, zorder=0)
    right.set(xlabel="hare (thousands)", ylabel="lynx (thousands)", title="Phase plane")
    figure.tight_layout()
    save(figure, "lynx_hare.png")


def dense(logs):
    """The fitted path at every Runge-Kutta step: the same equations with time in units of a step."""
    scale = 1.0 / STEPS
    return solve(np.exp(logs[:4]) * scale, np.exp(logs[4:]), (len(YEARS) - 1) * STEPS + 1, 1)


def main() -> int:
    """Fit, compare, draw."""
    chosen = arguments(__doc__, iterations=dict(default=60, help="BFGS iterations at most"))
    start = time.perf_counter()
    found = fit(min(chosen.iterations, 25) if chosen.quick else chosen.iterations, chosen.device)
    seconds = time.perf_counter() - start
    values = onp.exp(found.x)
    sigma = onp.sqrt(2 * found.fun / PELTS.size)
    print(f"loss {found.fun:.4f} after {found.nit} iterations, {found.nfev} gradients in {seconds:.1f} s")
    for name, value in zip(NAMES, values, strict=False):
        print(f"{name:>6} {value:.4f}   published {PUBLISHED[name]}")
    print(f"  1900 hare {values[4]:.1f}, lynx {values[5]:.1f} thousand; log error {sigma:.2f}")
    if not chosen.quick:
        plot(found.x)
    far = [n for n, v in zip(NAMES, values, strict=False) if abs(v / PUBLISHED[n] - 1) > 0.15]
    if far:
        print(f"more than 15% from the published estimates: {', '.join(far)}", file=sys.stderr)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
