"""Complex numbers: parts, conjugates, modulus.

A cotangent pairs with a tangent as Re(ct * t), so holomorphic functions multiply by their derivative without
conjugation and the gradient of a real function is df/dx - i df/dy.
"""

from __future__ import annotations

import numpy as np

from numbagrad.scalar.expr import ATOMS, atom


@atom(
    {"c": "{0}.real"},
    vjp=lambda g, z, out: (ATOMS["to_complex"](g),),
    jvp=lambda t, z, out: ATOMS["real"](t[0]),
    result="real",
    rule="complex",
    reference=np.real,
)
def real(z):
    """Real part."""


@atom(
    {"c": "{0}.imag"},
    vjp=lambda g, z, out: (ATOMS["to_complex"](g) * -1j,),
    jvp=lambda t, z, out: ATOMS["imag"](t[0]),
    result="real",
    rule="complex",
    reference=np.imag,
)
def imag(z):
    """Imaginary part."""


@atom(
    {"f": "{C}(complex({0}, 0))"},
    vjp=lambda g, x, out: (ATOMS["real"](g),),
    jvp=lambda t, x, out: ATOMS["to_complex"](t[0]),
    result="complex",
    rule="internal",
)
def to_complex(x):
    """A real number as a complex one."""


@atom(
    {"c": "{T}(complex({0}.real, -{0}.imag))"},
    vjp=lambda g, z, out: (ATOMS["conjugate"](g),),
    jvp=lambda t, z, out: ATOMS["conjugate"](t[0]),
    rule="complex",
    reference=np.conjugate,
)
def conjugate(z):
    """Complex conjugate."""


def _direction(z, out):
    """conj(z) / |z|, and 0 at 0."""
    return ATOMS["select"](ATOMS["equal"](out, 0), 0, ATOMS["conjugate"](z) / ATOMS["to_complex"](out))


@atom(
    {"c": "func.hypotenuse({0}.real, {0}.imag)"},
    vjp=lambda g, z, out: (ATOMS["zero_product"](ATOMS["to_complex"](g), _direction(z, out)),),
    jvp=lambda t, z, out: ATOMS["real"](ATOMS["zero_product"](t[0], _direction(z, out))),
    result="real",
    rule="complex",
    reference=np.abs,
)
def modulus(z):
    """|z| of a complex number. Derivative at 0: 0."""
