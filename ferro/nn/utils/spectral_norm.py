"""spectral_norm: a weight divided by its largest singular value, by a hook before each call (the older of two forms)."""

from __future__ import annotations

from typing import Any, TypeVar

from ferro.autograd.grad_mode import no_grad
from ferro.core.layout import contiguous_format
from ferro.ops.matrix_chains import multi_dot
from ferro.ops.products import dot, mv
from ferro.tensor import Tensor

from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..parameter import Parameter, is_lazy

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

M = TypeVar("M", bound=Module)


def output_dim(module: Module) -> int:
    """The dimension of the module's weight that counts its outputs."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def positive_iterations(n_power_iterations: int) -> int:
    """The number, or ValueError."""
    if n_power_iterations <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
    return n_power_iterations


class SpectralNorm:
    """The hook: sets the weight from `<name>_orig`, whose singular vectors it follows in `<name>_u` and `<name>_v`."""

    _version = 1  # before it, the state had the computed weight in the place of v

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        self.name = name
        self.dim = dim
        self.n_power_iterations = positive_iterations(n_power_iterations)
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix whose rows belong to the outputs."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight, after steps of the power iteration (in place) if wanted."""
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v = F.normalize(mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    u = F.normalize(mv(matrix, v), dim=0, eps=self.eps, out=u)
                # copies, because the next step writes to the buffers before this one's backward
                u, v = u.clone(memory_format=contiguous_format), v.clone(memory_format=contiguous_format)
        return weight / dot(u, mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, target_sigma: Any) -> Tensor:
        """v with u = W v / sigma and u' W v = sigma, for states that do not have it."""
        v = multi_dot([matrix.t().mm(matrix).pinverse(), matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / dot(u, mv(matrix, v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Put the hook, its parameter and its buffers in the place of the parameter `name`."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        norm = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with no_grad():
            u, v = (
                F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps)
                for size in norm.reshape_weight_to_matrix(weight).shape
            )
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # not a parameter: it must not be registered as one
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(norm)
        module._register_state_dict_hook(SpectralNormStateDictHook(norm))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(norm))
        return norm


class SpectralNormStateDictHook:
    """Notes the version of the state in its metadata."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Reads states from before version 1: finds v from the weight that they have in its place."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        if version is not None and version >= 1:
            return
        key = prefix + self.fn.name
        new_keys = all(key + end in state_dict for end in ("_orig", "_u", "_v"))
        if version is None and new_keys and key not in state_dict:
            return  # a state without metadata, of this version
        missing = [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with no_grad():
            original, u = state_dict[key + "_orig"], state_dict[key + "_u"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = self.fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = self.fn._solve_v_and_rescale(matrix, u, sigma)


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divides a weight by its largest singular value at each call; a power iteration follows that value while training.

    - `module` (Module): changed in place, and returned
    - `name` (str, default 'weight'): the weight's name
    - `n_power_iterations` (int, default 1): steps at each call; ValueError below 1
    - `eps` (float, default 1e-12): the least norm that is divided by
    - `dim` (int, default None): the dimension of outputs; None is 1 for transposed convolutions, else 0

    The older form, with hooks; `parametrizations.spectral_norm` is the newer. RuntimeError if the weight has such a
    norm already. Source: Miyato, Kataoka, Koyama and Yoshida, Spectral Normalization for Generative Adversarial
    Networks, 2018.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.utils.spectral_norm(ferro.nn.Linear(4, 3), n_power_iterations=20)
        >>> layer(ferro.zeros(2, 4)).shape
        ferro.Size([2, 3])
        >>> abs(ferro.linalg.matrix_norm(layer.weight, 2).item() - 1) < 1e-2
        True
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo `spectral_norm`; ValueError where there is none."""
    for id, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[id]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    kinds = (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook)
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for id, hook in list(table.items()):
            if isinstance(hook, kinds) and hook.fn.name == name:
                del table[id]
    return module
