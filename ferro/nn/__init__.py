"""Neural networks: modules, layers, their functions, initialisation and helpers."""

from . import functional, grad, init, modules, parameter, utils
from .module import Module
from .modules import *
from .parameter import Buffer, Parameter

__all__ = [
    "Buffer",
    "Module",
    "Parameter",
    "functional",
    "grad",
    "init",
    "modules",
    "parameter",
    "utils",
]
__all__ += modules.__all__
