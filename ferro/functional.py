"""The xp of Tensors: every function that a derivative formula may call, computing on Tensors and recording."""

from typing import Any as _Any

from ferro import xp as _xp
from ferro.core import backend as _backend
from ferro.core.apply import apply as _apply
from ferro.core.op import COMPUTED as _COMPUTED
from ferro.ops.activations import *
from ferro.ops.activations import gelu_slope
from ferro.ops.adaptive_pooling import adaptive_avg, adaptive_avg_spread
from ferro.ops.arithmetic import *
from ferro.ops.attention import attention_vjp
from ferro.ops.average_pooling import avg_pool, avg_spread
from ferro.ops.bessel import *
from ferro.ops.bessel import (
    airy_ai,
    airy_ai_prime,
    bessel_i_of_order,
    bessel_ie_of_order,
    bessel_j0,
    bessel_j1,
    bessel_j_of_order,
    bessel_y0,
    bessel_y1,
    i0e,
    i1,
    i1e,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_j_of_order,
)
from ferro.ops.bins import *
from ferro.ops.choices import *
from ferro.ops.cholesky import *
from ferro.ops.clamping import *
from ferro.ops.clipped_activations import *
from ferro.ops.combinations import *
from ferro.ops.comparison import *
from ferro.ops.complex import *
from ferro.ops.complex import as_complex
from ferro.ops.convolution import *
from ferro.ops.copies import *
from ferro.ops.correlation import conv, conv_input, conv_weight
from ferro.ops.creation import *
from ferro.ops.ctc import ctc_occupancy, ctc_vjp
from ferro.ops.data import *
from ferro.ops.determinants import *
from ferro.ops.determinants import cofactors
from ferro.ops.diagonals import *
from ferro.ops.diagonals import diagonal_put
from ferro.ops.differences import *
from ferro.ops.distances import *
from ferro.ops.division import *
from ferro.ops.eigenvalues import eig_factors, eigh_factors
from ferro.ops.einsum import *
from ferro.ops.einsum import contract
from ferro.ops.embedding import add_rows, row_scale, take_rows
from ferro.ops.entropy import cross_entropy_vjp, nll_pick, nll_spread
from ferro.ops.exchange import *
from ferro.ops.expanding import *
from ferro.ops.expanding import expand
from ferro.ops.exponential import *
from ferro.ops.exponential import log1p_complex
from ferro.ops.extrema import *
from ferro.ops.extrema import tie_weights, value_gather, value_scatter
from ferro.ops.filling import *
from ferro.ops.flat_positions import *
from ferro.ops.fourier_operations import fft_bins, fft_c2c, fft_c2r, fft_r2c
from ferro.ops.fused_arithmetic import *
from ferro.ops.gamma_samples import dirichlet_grad, standard_gamma_grad
from ferro.ops.gathering import *
from ferro.ops.grids import grid_slopes, sample_taps, spread_taps, tap_weights, weigh_taps
from ferro.ops.hyperbolic import *
from ferro.ops.index_reduce import *
from ferro.ops.indexing import *
from ferro.ops.indexing import select_spread
from ferro.ops.interpolation import resample, resample_spread
from ferro.ops.items import *
from ferro.ops.items import index_get, index_put_at, index_spread
from ferro.ops.joining import *
from ferro.ops.ldl import ldl_below, ldl_blocks, ldl_exchanges, ldl_multipliers
from ferro.ops.least_squares import *
from ferro.ops.least_squares import pseudo_inverse
from ferro.ops.likes import *
from ferro.ops.likes import new_zeros
from ferro.ops.linear import linear
from ferro.ops.linear_entropy import cross_entropy_again
from ferro.ops.logic import *
from ferro.ops.logsumexp import *
from ferro.ops.low_rank import *
from ferro.ops.lu import *
from ferro.ops.lu import lu_packed_solve, swap_rows
from ferro.ops.masks import *
from ferro.ops.masks import masked_spread
from ferro.ops.matrices import *
from ferro.ops.matrix_chains import *
from ferro.ops.matrix_functions import *
from ferro.ops.matrix_norms import *
from ferro.ops.named_windows import *
from ferro.ops.nonzero import *
from ferro.ops.norms import *
from ferro.ops.norms import vector_norm
from ferro.ops.number_tests import *
from ferro.ops.order import *
from ferro.ops.orthogonal import *
from ferro.ops.orthogonal import qr_factors
from ferro.ops.padding import *
from ferro.ops.padding import constant_pad
from ferro.ops.permuting import *
from ferro.ops.pieces import *
from ferro.ops.polar import nuclear_norm_of, polar_factor
from ferro.ops.polynomials import gegenbauer, gegenbauer_pair, hermite_polynomial_h, hermite_polynomial_he, laguerre
from ferro.ops.positions import *
from ferro.ops.products import *
from ferro.ops.quantiles import *
from ferro.ops.ranges import *
from ferro.ops.rectifiers import *
from ferro.ops.recurrent_cells import gru_one_vjp, lstm_one_vjp
from ferro.ops.recurrent_steps import gru_steps_vjp, lstm_steps_vjp, rnn_steps_vjp
from ferro.ops.reductions import *
from ferro.ops.repeating import *
from ferro.ops.repeating import repeat
from ferro.ops.replacements import *
from ferro.ops.rounding import *
from ferro.ops.scans import *
from ferro.ops.scans import affine_scan, cumprod_others, cumsum_vjp, picked_sum, prod_others, shift
from ferro.ops.scattering import *
from ferro.ops.scattering import gather_spread, prod_once
from ferro.ops.searching import *
from ferro.ops.selection import *
from ferro.ops.shape import *
from ferro.ops.signs import *
from ferro.ops.slices import *
from ferro.ops.slices import slice_get, slice_place, slice_put
from ferro.ops.sliding import col2im, im2col
from ferro.ops.softmax import *
from ferro.ops.softmax import log_softmax_vjp, softmax_vjp
from ferro.ops.solving import *
from ferro.ops.solving import inv_ex, solve_lu
from ferro.ops.sparse_products import sampled_mm, sparse_mm
from ferro.ops.special import *
from ferro.ops.special import erfcx, xlog1py, zeta
from ferro.ops.spectral import *
from ferro.ops.spectral import svd_factors, svdvals
from ferro.ops.spectrogram import *
from ferro.ops.statistics import *
from ferro.ops.strided_views import *
from ferro.ops.strided_views import as_strided_add, as_strided_put, as_strided_read, windows, windows_add
from ferro.ops.structure import *
from ferro.ops.structure import cast
from ferro.ops.sums_of_products import *
from ferro.ops.tensor_products import *
from ferro.ops.transposed_convolution import *
from ferro.ops.triangles import *
from ferro.ops.triangles import solve_tri
from ferro.ops.trigonometric import *
from ferro.ops.truths import *
from ferro.ops.turning import *
from ferro.ops.uninitialised import *
from ferro.ops.unique import *
from ferro.ops.unpooling import pool_gather, pool_scatter
from ferro.ops.variance import *
from ferro.ops.vector_products import *


def elementwise(function: _Any, *values: _Any) -> _Any:
    """An elementwise function: as the operation that computes it, if there is one, else step by step."""
    op = _COMPUTED.get(function)
    if op is None:
        return _xp.elementwise(_backend.functional, function, *values)
    return _apply(op, values[: function.arrays], values[function.arrays :])


__all__ = [name for name in dir() if not name.startswith("_")]


def _register() -> None:
    import sys

    _backend.functional = sys.modules[__name__]
    _xp.complete(_backend.functional)


_register()
