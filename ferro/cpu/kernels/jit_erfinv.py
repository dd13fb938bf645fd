"""The inverse of erf of float64, for a kernel; see jit_special.py, which has that of float32.

x times a polynomial of w = -log(1 - x²), or in the tails of its root (M. Giles, Approximating the erfinv function, GPU Computing
Gems, Jade edition, 2011). The polynomials are fits of our own. Largest error in units in the last place: 1.9.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_math import log
from ferro.native.jit import apart, device, kernel, once

f64 = np.float64
_BLOCK = 1024  # numbers that are looked at again while they are in the cache
_TAIL = 0.999  # from here on w is above 6.2


@device
def _near(t):
    """erfinv x / x up to w = 6.25, for t = w - 3.125."""
    p = f64(-3.5932028927020693e-22)
    p = p * t + f64(3.194015548136271e-21)
    p = p * t + f64(1.999259988861535e-20)
    p = p * t + f64(-3.4734793888538036e-19)
    p = p * t + f64(6.075050702072414e-19)
    p = p * t + f64(1.5510787009902526e-17)
    p = p * t + f64(-1.2215637192404172e-16)
    p = p * t + f64(-3.94018812230432e-17)
    p = p * t + f64(6.521333511502239e-15)
    p = p * t + f64(-4.0020031087558496e-14)
    p = p * t + f64(-8.07192593899004e-14)
    p = p * t + f64(2.6305268312595183e-12)
    p = p * t + f64(-1.2978805369932565e-11)
    p = p * t + f64(-5.414303283919504e-11)
    p = p * t + f64(1.051223377050429e-09)
    p = p * t + f64(-4.1126604371632185e-09)
    p = p * t + f64(-2.907039127564132e-08)
    p = p * t + f64(4.23478816822246e-07)
    p = p * t + f64(-1.3654691758785656e-06)
    p = p * t + f64(-1.3882523393957483e-05)
    p = p * t + f64(0.00018673420801981186)
    p = p * t + f64(-0.0007407025341546431)
    p = p * t + f64(-0.006033670871426851)
    p = p * t + f64(0.24015818242558834)
    return p * t + f64(1.6536545626831027)


@device
def _far(t):
    """The same up to w = 16, for t = √w - 3.25."""
    p = f64(7.680200479077053e-09)
    p = p * t + f64(-1.5305397964152548e-08)
    p = p * t + f64(-2.091453334773126e-08)
    p = p * t + f64(1.3158663683192966e-07)
    p = p * t + f64(-2.4549818963339823e-07)
    p = p * t + f64(-2.761716223816241e-08)
    p = p * t + f64(1.4815977874022539e-06)
    p = p * t + f64(-3.985705945648173e-06)
    p = p * t + f64(2.93257845538535e-06)
    p = p * t + f64(1.2465028224217455e-05)
    p = p * t + f64(-4.732068066544697e-05)
    p = p * t + f64(6.828711739251955e-05)
    p = p * t + f64(2.4031512865758357e-05)
    p = p * t + f64(-0.0003550378137852452)
    p = p * t + f64(0.0009532893415794137)
    p = p * t + f64(-0.0016882755354488555)
    p = p * t + f64(0.00249144209795696)
    p = p * t + f64(-0.0037512085082247342)
    p = p * t + f64(0.005370914553555033)
    p = p * t + f64(1.0052589676941655)
    return p * t + f64(3.0838856104922208)


@device
def _farthest(t):
    """The same behind, for t = √w - 5."""
    p = f64(-1.7710309893185192e-11)
    p = p * t + f64(4.326713146272191e-11)
    p = p * t + f64(5.7596302191799556e-11)
    p = p * t + f64(-4.3918011685774676e-10)
    p = p * t + f64(1.3382432167190545e-09)
    p = p * t + f64(-3.468653406365166e-09)
    p = p * t + f64(7.79917014387967e-09)
    p = p * t + f64(-1.5257394817278866e-08)
    p = p * t + f64(2.903160540997253e-08)
    p = p * t + f64(-6.755504734714339e-08)
    p = p * t + f64(2.2904840320426764e-07)
    p = p * t + f64(-9.930297091922199e-07)
    p = p * t + f64(4.526053367499484e-06)
    p = p * t + f64(-1.9681770650615812e-05)
    p = p * t + f64(7.599527801684294e-05)
    p = p * t + f64(-0.000215030119831353)
    p = p * t + f64(-0.00013871931837723943)
    p = p * t + f64(1.0103004648645455)
    return p * t + f64(4.849906401408584)


@once
def _in_tails(x):
    a = abs(x)
    s = np.sqrt(-log((f64(1) - a) * (f64(1) + a)))
    y = x * (_far(s - f64(3.25)) if s < f64(4) else _farthest(s - f64(5)))
    return y if a < f64(1) else (x * f64(np.inf) if a == f64(1) else f64(np.nan))  # (nan too)


@kernel
def erfinv_double(x, out):
    apart()
    for start in range(0, out.size, _BLOCK):
        stop = min(start + _BLOCK, out.size)
        for i in range(start, stop):
            a = abs(x[i])
            out[i] = x[i] * _near(-log((f64(1) - a) * (f64(1) + a)) - f64(3.125))
        for i in range(start, stop):  # (few of most numbers)
            if not abs(x[i]) < _TAIL:
                out[i] = _in_tails(x[i])
