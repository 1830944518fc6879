"""scipy.optimize takes value_and_grad as it is: its compiled minimisers insist on NumPy arrays."""

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize, root

import numbagrad as ng
import numbagrad.numpy as gnp


def rosenbrock(x):
    return gnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "TNC", "SLSQP", "Newton-CG", "trust-ncg"])
def test_minimize(method):
    options = {"hessp": lambda x, v: ng.hvp(rosenbrock, x, v)} if method in ("Newton-CG", "trust-ncg") else {}
    found = minimize(ng.value_and_grad(rosenbrock), [-1.0, 2.0, 0.0], jac=True, method=method, **options)
    np.testing.assert_allclose(np.asarray(found.x), 1.0, atol=2e-3)


def test_root_and_least_squares():
    def residual(x):
        return gnp.stack([x[0] ** 2 + x[1] - 3, x[0] - x[1] + 1])

    want = [1.0, 2.0]
    np.testing.assert_allclose(np.asarray(root(residual, [0.5, 0.5], jac=ng.jacfwd(residual)).x), want, atol=1e-6)
    solved = least_squares(residual, [0.5, 0.5], jac=lambda x: np.asarray(ng.jacrev(residual)(x)))
    np.testing.assert_allclose(np.asarray(solved.x), want, atol=1e-6)
