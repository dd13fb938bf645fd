"""The public autograd API."""

from ferro.autograd import forward_ad, functional, graph, profiler
from ferro.autograd.anomaly_mode import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
    set_detect_anomaly,
)
from ferro.autograd.backward import backward, grad
from ferro.autograd.function import Function, once_differentiable
from ferro.autograd.grad_mode import (
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from ferro.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from ferro.autograd.profiler import _profiler_enabled, kineto_available, record_function
from ferro.autograd.variable import Variable
from ferro.core.saved import SavedTensor

__all__ = [
    "Function", "GradcheckError", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional",
    "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "kineto_available", "no_grad",
    "once_differentiable", "profiler", "record_function", "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip
