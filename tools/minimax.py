"""Minimax polynomials with float32 or float64 coefficients; tools/simd_coefficients.py uses it.

Each fit P(t) minimises max |weight(t) * (P(t) - g(t))| over [a, b] by the Remez exchange on a fixed grid, in
mpmath. The weight is chosen so that this is the relative error of the function in which P is used.
Coefficients are rounded to the target type one after the other, lowest first, each time refitting the rest to
what is left: plain rounding of all of them costs up to a factor of ten in float32.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def remez(ts, gs, ws, degree):
    """Coefficients (lowest first) of the best weighted fit on the grid."""
    count = degree + 2
    n = len(ts)
    reference = [int((1 - np.cos(np.pi * k / (count - 1))) / 2 * (n - 1) + 0.5) for k in range(count)]
    best = None
    for _ in range(25):
        rows = mp.matrix(count, count)
        rhs = mp.matrix(count, 1)
        for i, k in enumerate(reference):
            power = mp.mpf(1)
            for j in range(degree + 1):
                rows[i, j] = power
                power *= ts[k]
            rows[i, degree + 1] = (-1) ** i / ws[k]
            rhs[i] = gs[k]
        solution = mp.lu_solve(rows, rhs)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [w * (mp.polyval(coefficients[::-1], t) - g) for t, g, w in zip(ts, gs, ws)]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[0]:
            best = (worst, coefficients)
        if worst <= abs(solution[degree + 1]) * mp.mpf("1.01"):
            break
        reference = exchange(errors, count)
    return best[1]


def exchange(errors, count):
    """

    count` grid points of alternating sign: the extreme one of each run of equal sign, weakest ends
    dropped.
    """
    runs = []
    for k, e in enumerate(errors):
        if runs and (e > 0) == (errors[runs[-1]] > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    if len(runs) < count:  # an error at the level of the working precision: spread the points anew
        return [int(k * (len(errors) - 1) / (count - 1)) for k in range(count)]
    return runs


def fit(g, weight, a, b, degree, dtype, exact):
    """Rounded coefficients and the largest weighted error; the first `exact` of them are refitted after."""
    n = 16 * (degree + 2)
    mid, half = (mp.mpf(a) + b) / 2, (mp.mpf(b) - a) / 2
    ts = [mid - half * mp.cos(mp.pi * (k + mp.mpf("0.013")) / n) for k in range(n)]
    values = [g(t) for t in ts]
    weights = [abs(weight(t)) for t in ts]
    rest, ws, out = values, weights, []
    while len(out) <= degree:
        c = remez(ts, rest, ws, degree - len(out))
        if len(out) >= exact:
            out += [mp.mpf(float(dtype(float(v)))) for v in c]
            break
        out.append(mp.mpf(float(dtype(float(c[0])))))
        rest = [(r - out[-1]) / t for r, t in zip(rest, ts)]
        ws = [w * abs(t) for w, t in zip(ws, ts)]
    error = max(w * abs(mp.polyval(out[::-1], t) - v) for t, v, w in zip(ts, values, weights))
    return [dtype(float(c)) for c in out], error
