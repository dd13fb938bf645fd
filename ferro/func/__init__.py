"""Functions of functions, as in torch.func: derivatives of functions of (nested) tensors that compose in any order."""

from ferro.func.forward import jvp, linearize
from ferro.func.jacobians import hessian, jacfwd, jacrev
from ferro.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from ferro.func.reverse import grad, grad_and_value, vjp
from ferro.func.unwrapping import debug_unwrap
from ferro.func.vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
