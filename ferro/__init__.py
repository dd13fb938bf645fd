"""ferro: eager, tape-based automatic differentiation for Python with PyTorch's API, on NumPy, Numba and CuPy."""

from math import e, inf, nan, pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ferro._importing import done as _done  # isort: skip (before all else)
from ferro.tensor import Tensor  # isort: skip (the submodule's name must be taken before the function `tensor` is)
from ferro import (
    __future__,
    accelerator,
    amp,
    autograd,
    backends,
    compiler,
    cuda,
    debug,
    fft,
    func,
    futures,
    graph,
    jit,
    linalg,
    masked,
    nn,
    optim,
    overrides,
    profiler,
    quasirandom,
    random,
    signal,
    sparse,
    special,
    storage,
    utils,
)
from ferro import absent as _absent
from ferro import functional as _functional
from ferro.__config__ import show_config
from ferro._version import __version__
from ferro.amp.autocast_mode import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from ferro.amp.grad_scaler import GradScaler
from ferro.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from ferro.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from ferro.backends.switches import get_float32_matmul_precision, set_float32_matmul_precision
from ferro.compiler import compile
from ferro.conditions import (
    _assert,
    _assert_async,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_tensor_all,
    _check_type,
    _check_value,
)
from ferro.control_flow import cond, scan, while_loop
from ferro.core import forward_mode as _forward
from ferro.core import parallel as _parallel
from ferro.core import return_types
from ferro.core.base import is_inference
from ferro.core.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from ferro.core.device import device, get_default_device, set_default_device
from ferro.core.dtypes import (
    bfloat16,
    complex32,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    qint8,
    qint32,
    quint2x4,
    quint4x2,
    quint8,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ferro.core.dtypes import bool_ as bool
from ferro.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from ferro.core.mode import is_grad_enabled, is_inference_mode_enabled
from ferro.core.notices import is_warn_always_enabled, set_warn_always
from ferro.core.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from ferro.core.size import Size
from ferro.core.storage import UntypedStorage
from ferro.core.strict import is_strict, set_strict
from ferro.core.typed_storage import (
    BFloat16Storage,
    BoolStorage,
    ByteStorage,
    CharStorage,
    ComplexDoubleStorage,
    ComplexFloatStorage,
    DoubleStorage,
    FloatStorage,
    HalfStorage,
    IntStorage,
    LongStorage,
    ShortStorage,
    TypedStorage,
)
from ferro.core.typed_storage import FloatStorage as Storage
from ferro.cpu.memory import empty_cache
from ferro.func import vmap
from ferro.futures import Future
from ferro.jit import ScriptModule, fork, wait
from ferro.native.threads import get_num_interop_threads, get_num_threads, set_num_interop_threads, set_num_threads
from ferro.ops.activations import celu, celu_, selu, selu_
from ferro.ops.adaptive_pooling import *
from ferro.ops.adaptive_pooling import adaptive_max_pool1d_with_indices as adaptive_max_pool1d
from ferro.ops.arithmetic import *
from ferro.ops.as_functions import *
from ferro.ops.attention_choice import chosen as _fused_sdp_choice
from ferro.ops.average_pooling import *
from ferro.ops.batch_norms import native_batch_norm
from ferro.ops.bessel import *
from ferro.ops.binary_entropy import binary_cross_entropy_with_logits
from ferro.ops.bins import *
from ferro.ops.choices import *
from ferro.ops.cholesky import *
from ferro.ops.clamping import *
from ferro.ops.clipped_activations import hardshrink
from ferro.ops.combinations import *
from ferro.ops.comparison import *
from ferro.ops.complex import *
from ferro.ops.convolution import *
from ferro.ops.copies import *
from ferro.ops.creation import *
from ferro.ops.ctc import ctc_loss
from ferro.ops.data import *
from ferro.ops.determinants import *
from ferro.ops.diagonals import *
from ferro.ops.differences import *
from ferro.ops.distances import *
from ferro.ops.division import *
from ferro.ops.dropout import alpha_dropout, alpha_dropout_, dropout, dropout_, native_dropout
from ferro.ops.einsum import *
from ferro.ops.embedding import embedding, embedding_renorm_
from ferro.ops.entropy import kl_div
from ferro.ops.exchange import *
from ferro.ops.expanding import *
from ferro.ops.exponential import *
from ferro.ops.extrema import *
from ferro.ops.feature_dropout import feature_alpha_dropout, feature_alpha_dropout_, feature_dropout, feature_dropout_
from ferro.ops.filling import *
from ferro.ops.flat_positions import *
from ferro.ops.foreach import *
from ferro.ops.fused_arithmetic import *
from ferro.ops.gamma_samples import dirichlet_grad as _dirichlet_grad
from ferro.ops.gamma_samples import sample_dirichlet as _sample_dirichlet
from ferro.ops.gamma_samples import standard_gamma as _standard_gamma
from ferro.ops.gamma_samples import standard_gamma_grad as _standard_gamma_grad
from ferro.ops.gathering import *
from ferro.ops.grids import affine_grid_generator, grid_sampler, grid_sampler_2d, grid_sampler_3d
from ferro.ops.group_norms import group_norm, native_group_norm
from ferro.ops.hyperbolic import *
from ferro.ops.index_reduce import *
from ferro.ops.indexing import *
from ferro.ops.items import *
from ferro.ops.joining import *
from ferro.ops.layer_norms import layer_norm, native_layer_norm, rms_norm
from ferro.ops.least_squares import *
from ferro.ops.legacy import *
from ferro.ops.likelihood_losses import poisson_nll_loss
from ferro.ops.likes import *
from ferro.ops.logic import *
from ferro.ops.logsumexp import *
from ferro.ops.low_rank import *
from ferro.ops.lu import *
from ferro.ops.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
)
from ferro.ops.masks import *
from ferro.ops.matrices import *
from ferro.ops.matrix_chains import *
from ferro.ops.matrix_functions import *
from ferro.ops.matrix_norms import *
from ferro.ops.max_pooling import *
from ferro.ops.named_windows import *
from ferro.ops.nonzero import *
from ferro.ops.norms import *
from ferro.ops.number_tests import *
from ferro.ops.order import *
from ferro.ops.orthogonal import *
from ferro.ops.padding import *
from ferro.ops.permuting import *
from ferro.ops.pieces import *
from ferro.ops.positional import *
from ferro.ops.positions import *
from ferro.ops.products import *
from ferro.ops.quantiles import *
from ferro.ops.random import *
from ferro.ops.random_likes import *
from ferro.ops.ranges import *
from ferro.ops.ranges import range_ as range
from ferro.ops.rectifiers import prelu, relu, relu_, rrelu, rrelu_, threshold, threshold_
from ferro.ops.recurrent import *
from ferro.ops.recurrent_cells import *
from ferro.ops.reductions import *
from ferro.ops.repeating import *
from ferro.ops.replacements import *
from ferro.ops.rounding import *
from ferro.ops.safe import *
from ferro.ops.sampling import *
from ferro.ops.scans import *
from ferro.ops.scattering import *
from ferro.ops.searching import *
from ferro.ops.segments import *
from ferro.ops.selection import *
from ferro.ops.shape import *
from ferro.ops.signs import *
from ferro.ops.slices import *
from ferro.ops.softmax import log_softmax, softmax
from ferro.ops.solving import *
from ferro.ops.special import *
from ferro.ops.spectral import *
from ferro.ops.spectrogram import *
from ferro.ops.statistics import *
from ferro.ops.storage import from_file, is_same_size, is_storage
from ferro.ops.strided_views import *
from ferro.ops.structure import *
from ferro.ops.sums_of_products import *
from ferro.ops.tensor_products import *
from ferro.ops.tensor_products import bilinear
from ferro.ops.transposed_convolution import *
from ferro.ops.triangles import *
from ferro.ops.trigonometric import *
from ferro.ops.truths import *
from ferro.ops.turning import *
from ferro.ops.uninitialised import *
from ferro.ops.unique import *
from ferro.ops.variance import *
from ferro.ops.vector_products import *
from ferro.overrides import DisableTorchFunctionSubclass
from ferro.printing import get_printoptions, set_printoptions
from ferro.serialization import load, save
from ferro.serialization.records import PyTorchFileReader
from ferro.sparse import (
    hspmm,
    smm,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    sspaddmm,
)
from ferro.sparse import hspmm as hsmm
from ferro.sparse import mm as dsmm
from ferro.sparse import mm as spmm
from ferro.sparse import sspaddmm as saddmm
from ferro.sparse.pointers import _convert_indices_from_coo_to_csr, _convert_indices_from_csr_to_coo
from ferro.streams import Event, Stream, get_device_module
from ferro.symbols import *
from ferro.utils.dlpack import to_dlpack

newaxis = None

# PyTorch's other names of the dtypes
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
chalf, cfloat, cdouble = complex32, complex64, complex128

__all__ = [name for name in dir() if not name.startswith("_")] + ["__version__"]

# Imported when they are first asked for: Python's multiprocessing takes as long as half of ferro.
_LATER = (
    "_C",
    "_dynamo",
    "_inductor",
    "_jit_internal",
    "_subclasses",
    "_tensor_str",
    "ao",
    "array_api",
    "as_torch",
    "distributions",
    "distributed",
    "fx",
    "hub",
    "library",
    "mps",
    "mtia",
    "multiprocessing",
    "onnx",
    "testing",
    "torch_version",
    "types",
    "version",
    "xpu",
)

if _TYPE_CHECKING:
    from ferro import (
        _C,
        _dynamo,
        _inductor,
        array_api,
        as_torch,
        distributed,
        distributions,
        fx,
        library,
        mps,
        mtia,
        multiprocessing,
        testing,
        torch_version,
        version,
        xpu,
    )
else:

    def __getattr__(name):
        if name in _LATER:
            return _absent.load(f"ferro.{name}")
        return _absent.missing("ferro", name)


_absent.explain_all()
_absent.explain_methods(Tensor)
_done()
