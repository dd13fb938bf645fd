"""class Tensor: the slots of core.base, the attributes of autograd, conversions; the operations come as mixins."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ferro.core import backend, capsules, dtypes
from ferro.core.apply import bind
from ferro.core.backend import HOST
from ferro.core.base import LEAF, Leaf, Meta, TensorBase, is_inference, lose, meta_of, root, version_of, wrap
from ferro.core.device import CPU, device
from ferro.core.held_memory import copied, lend
from ferro.core.history import history
from ferro.core.inplace import retain
from ferro.core.layout import Named, strided
from ferro.core.mode import is_grad_enabled, is_inference_mode_enabled
from ferro.core.node import Handle, Node, OutputRef, shown, table
from ferro.core.notices import warn_once
from ferro.core.provenance import departed
from ferro.core.size import Size
from ferro.core.transforms import refuse_inside
from ferro.ops.legacy import legacy
from ferro.ops.methods import OperationMethods
from ferro.printing import describe
from ferro.sparse.dense import LayoutMethods

_new_size = tuple.__new__  # (Size() looks at each of the numbers)


class Tensor(LayoutMethods, OperationMethods, TensorBase):
    """An n-dimensional array that can record what is computed from it.

    Made by :func:`ferro.tensor`, the creation functions and operations.  ``Tensor(sizes...)`` and ``Tensor(data)`` make
    tensors of the default dtype, as in PyTorch.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy(None, args, kwargs, cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        from ferro import overrides

        if overrides.overrides(cls):
            overrides.adopt(cls)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """What ferro's functions and methods do with tensors of a subclass: results have the subclass, too."""
        from ferro import overrides

        return overrides.by_default(cls, func, types, args, kwargs)

    def as_subclass(self, cls: type) -> Any:
        """The tensor as an object of a subclass of Tensor: it shares memory and history, and is a view."""
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise TypeError(f"as_subclass(): cls must be a type that inherits from Tensor, got {cls!r}")
        alias = backend.functional.reshape(self, self._data.shape)
        t = wrap(alias._data, alias._node, cls)
        t._counter, t._meta = alias._counter, alias._meta
        return t

    @staticmethod
    def _make_subclass(subclass: type, data: Tensor, require_grad: bool = False) -> Any:
        """A leaf of a subclass of Tensor that shares the memory of `data`."""
        if not (isinstance(subclass, type) and issubclass(subclass, Tensor)):
            raise TypeError(f"_make_subclass(): cls must be a type that inherits from Tensor, got {subclass!r}")
        return wrap(data._data, None, subclass).requires_grad_(require_grad)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions."""
        return _new_size(Size, self._data.shape)

    @overload
    def size(self) -> Size: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return _new_size(Size, self._data.shape)
        n = self._data.ndim
        if not -n <= dim < n:
            raise IndexError(
                f"size: Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {dim})"
            )
        return self._data.shape[dim]

    @property
    def dtype(self) -> dtypes.dtype:
        """The data type."""
        return dtypes.FROM_NUMPY[self._data.dtype]

    @property
    def device(self) -> device:
        """Where the data live."""
        return CPU if type(self._data) is HOST else backend.device_of(self._data)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def layout(self) -> Named:
        """How the elements lie in memory; ferro has dense, strided tensors only."""
        return strided

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._data.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._data.nbytes

    def nelement(self) -> int:
        """The number of elements."""
        return self._data.size

    ndimension = dim

    is_cuda = is_sparse = is_sparse_csr = is_quantized = is_meta = is_mps = is_nested = False
    is_mkldnn = is_mtia = is_vulkan = is_xla = is_xpu = is_ipu = is_maia = False
    is_cpu = True
    name = None  # (PyTorch's tensors say so, too)

    def get_device(self) -> int:
        """The number of the tensor's device: -1, the CPU has none."""
        return -1

    def is_distributed(self) -> bool:
        """Whether the tensor is a part of one that lies on several machines: never."""
        return False

    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
        return self._data.ctypes.data if self._data.size else 0

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating one."""
        return self.dtype.is_floating_point

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode, or is a view of one that was."""
        return is_inference(self)

    # -- autograd ------------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded; can be set on leaves.

        True also, as in PyTorch, for a view of a tensor that requires grad which was made under no_grad (or before the
        tensor required grad): such a view has no history, and no gradient flows through it.
        """
        if history(self) is not None:
            return True
        m: Meta | None = self._meta
        if m is None or m.view is None or self._data.dtype not in dtypes.INEXACT:
            return False
        base = root(m.view)
        if base._node is None or base._counter is not self._counter:  # without history, or it has moved to other memory
            return False
        return all(op.diff for op, _, _ in m.view.steps)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, got {type(value).__name__}")
        if value and not self.is_leaf:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        if value and not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise RuntimeError(
                f"only Tensors of floating point and complex dtype can require gradients, got {self.dtype}"
            )
        self.requires_grad_(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool; it cannot be deleted")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Starts (or, False, stops) recording operations on this leaf; returns the tensor."""
        refuse_inside("Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs)", "requires_grad_()")
        return self._as_leaf(requires_grad, "floating point")

    def _as_leaf(self, requires_grad: bool, kinds: str = "floating point and complex") -> Any:
        """requires_grad_ for ferro's own use, also inside of transforms."""
        node = history(self)
        if isinstance(node, Leaf) or node is None:
            if requires_grad and self._data.dtype not in dtypes.INEXACT:
                raise RuntimeError(f"only Tensors of {kinds} dtype can require gradients, got {self.dtype}")
            if requires_grad and node is None and is_inference(self) and not is_inference_mode_enabled():
                raise RuntimeError(
                    "requires_grad_: Setting requires_grad=True on inference tensor outside InferenceMode is not allowed; "
                    "clone() it to get a normal tensor"
                )
            self._node = LEAF if requires_grad else None
        elif not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than recorded as the result of an operation."""
        node = history(self)
        return node is None or node is LEAF

    @property
    def grad_fn(self) -> Node | None:
        """The node of the tape that computes the gradients of the tensor's inputs; None for a leaf."""
        node = history(self)
        if node is None or node is LEAF:
            return None
        return shown(node.node if isinstance(node, OutputRef) else node)

    @property
    def output_nr(self) -> int:
        """Which output of its ``grad_fn`` the tensor is."""
        return self._node.index if isinstance(history(self), OutputRef) else 0

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by backward(); None before the first, and (with a warning) for what is not a leaf."""
        m = self._meta
        if (
            (m is None or m.grad is None)
            and self._node is not None
            and self._node is not LEAF
            and not (m and m.retains)
        ):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated "
                "during backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() "
                "on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        return None if m is None else m.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self._meta is not None and self._meta.grad is not None:
                self._meta.grad = None
            return
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        own, given = self._data, value if value.is_sparse else value._data
        if given.shape != own.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: attempting to assign a gradient of size {list(given.shape)} "
                f"to a tensor of size {list(own.shape)}"
            )
        if given.dtype is not own.dtype and value.dtype is not self.dtype:
            raise RuntimeError(f"assigned grad has data of a different type: {value.dtype} instead of {self.dtype}")
        meta_of(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        meta_of(self).grad = None

    _grad = grad  # PyTorch's other name of it, which programs set

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        *,
        num_threads: int | None = None,
    ) -> None:
        """Adds the gradient of this tensor to the ``.grad`` of the leaves: see :func:`ferro.autograd.backward`.

        - `self` (Tensor): mostly of one element
        - `gradient` (Tensor, default None): the cotangent, in the shape of the tensor; needed unless the tensor has one
          element
        - `retain_graph` (bool, default None): keeps the saved values for another backward; None: as `create_graph`
        - `create_graph` (bool, default False): records the gradients, for derivatives of them
        - `inputs` (sequence of Tensors, default None): only these get gradients; None: all leaves
        - `num_threads` (int, default None): how many threads share the work; None: as set by `set_num_threads`

        RuntimeError if nothing was recorded, or if the graph was freed by an earlier backward; the message names the
        lines.

        Example::

            >>> import ferro
            >>> w = ferro.tensor([1.0, 2.0], requires_grad=True)
            >>> (w**2).sum().backward()
            >>> w.grad
            tensor([2., 4.])
        """
        backend.backward(self, gradient, retain_graph, create_graph, inputs=inputs, num_threads=num_threads)

    def module_load(self, other: Tensor, assign: bool = False) -> Tensor:
        """What `Module.load_state_dict` puts in the place of this tensor when it swaps (`ferro.__future__`).

        A copy of `other` in this tensor, or with `assign` `other` itself, detached.  Subclasses may define it.
        """
        return other.detach() if assign else self.copy_(other).detach()

    def detach(self) -> Tensor:
        """A tensor that shares the data (and the version counter) but no history.

        Example::

            >>> import ferro
            >>> x = ferro.ones(2, requires_grad=True)
            >>> y = (x * 2).detach()
            >>> y.requires_grad
            False
        """
        t = wrap(self._data)
        t._counter = version_of(self)
        if self._node is not None:
            lose(t, self, "detach()")
        elif self._meta is not None:
            t._meta = self._meta.detached
        return t

    def detach_(self) -> Tensor:
        """Cuts the tensor off from its history; refused for views."""
        if self._meta is not None and self._meta.view is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if self._node is not None:
            lose(self, self, "detach_()")
        self._node = None
        if self._meta is not None and self._meta.tangents:
            self._meta.tangents = None
        return self

    @property
    def data(self) -> Tensor:
        """A tensor that shares the data, but neither history nor version counter."""
        if type(self._data) is not np.ndarray:
            raise RuntimeError("accessing `data` under vmap transform is not allowed (use detach())")
        t = wrap(self._data)
        if self._node is not None:
            lose(t, self, ".data")
        if is_inference(self):
            t._counter = self._counter
        return t

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._node is not None and value._data.dtype not in dtypes.INEXACT:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, "
                f"got {value.dtype}"
            )
        self._data = value._data

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @property
    def _grad_fn(self) -> Any:
        """PyTorch's other name of grad_fn."""
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def _backward_hooks(self) -> dict | None:
        """The hooks of a leaf by number; None if there are none (those of other tensors hang on their node)."""
        return None if self._meta is None else self._meta.hooks

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: dict | None) -> None:
        if hooks is not None and not isinstance(hooks, dict):
            raise TypeError(f"_backward_hooks must be a dict or None, not {type(hooks).__name__}")
        meta_of(self).hooks = hooks

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    def retain_grad(self) -> None:
        """Makes backward() keep the gradient of this non-leaf in ``.grad``."""
        refuse_inside("Tensor.retain_grad()", "retain_grad()")
        node = history(self)
        if node is None and not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        m = meta_of(self)
        if node is LEAF or node is None or m.retains:
            return
        m.retains = True
        retain(self)

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad() was called on this non-leaf."""
        return self._meta is not None and self._meta.retains

    def register_hook(self, hook: Callable) -> Handle:
        """Calls ``hook(grad)`` when the gradient of the tensor is known; a tensor it returns replaces the gradient.

        Returns a handle; ``handle.remove()`` takes the hook away.

        Example::

            >>> import ferro
            >>> w = ferro.ones(2, requires_grad=True)
            >>> handle = w.register_hook(lambda grad: grad * 10)
            >>> w.sum().backward()
            >>> w.grad
            tensor([10., 10.])
        """
        node = history(self)
        if node is None:
            if not self.requires_grad:
                raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
            return Handle({}, hook)  # a view made under no_grad: no gradient will come
        if node is LEAF:
            return Handle(table(meta_of(self), "hooks"), hook)
        if isinstance(node, OutputRef):
            return Handle(node.node._register_hook_dict(node.index), hook)
        return Handle(node._register_hook_dict(0), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> Handle:
        """Calls ``hook(tensor)`` after backward() has added to ``.grad`` of this leaf."""
        if history(self) is not LEAF:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors or tensors that do not require grad"
            )
        return Handle(table(meta_of(self), "post"), hook)

    @property
    def _cdata(self) -> int:
        """A number that the same tensor, and no other that exists, has: PyTorch's is an address, too."""
        return id(self)

    @property
    def _version(self) -> int:
        """How often the storage was changed in place."""
        if is_inference(self):
            raise RuntimeError("Inference tensors do not track version counter.")
        if self._counter is None and self._node is not None and self._node is not LEAF:
            return version_of(self).n  # (a node may have one for its result)
        return 0 if self._counter is None else self._counter.n

    @property
    def _base(self) -> Tensor | None:
        """The tensor this one is a view of."""
        m: Meta | None = self._meta
        return None if m is None or m.view is None else m.view.base  # type: ignore[return-value]

    def _is_view(self) -> bool:
        return self._base is not None

    # -- conversions ---------------------------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The tensor as a NumPy array sharing its memory (force: also of a tensor with history).

        RuntimeError for a tensor that requires grad: call detach() first.

        Example::

            >>> import ferro
            >>> x = ferro.zeros(2)
            >>> x.numpy()[0] = 5
            >>> x
            tensor([5., 0.])
        """
        if not force and history(self) is not None and is_grad_enabled():
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if (self._meta is not None and self._meta.detached is not None) or self._node is not None:
            departed("numpy()")
        if type(self._data) is not HOST:
            if self.device != CPU:
                if force:
                    return self.detach().cpu().numpy()
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
                )
            return np.asarray(self._data)  # which says why there is no array
        lend(self._data)
        return self._data.view()  # a shape or dtype that the program gives the array is not that of the tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from ferro.numpy_functions import on_ufunc

        return on_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        from ferro.numpy_functions import on_function

        return on_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array-API standard on tensors, ferro.array_api; ValueError for a version that it has not."""
        namespace = sys.modules["ferro"].array_api
        if api_version not in (None, *namespace.VERSIONS):
            raise ValueError(
                f"ferro.array_api has the versions {', '.join(namespace.VERSIONS)} of the standard, not {api_version!r}"
            )
        return namespace

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What a function of NumPy's made of the tensor, as a tensor."""
        from ferro.numpy_functions import as_tensor

        return as_tensor(array)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A DLPack capsule that shares the memory; BufferError for a tensor with history, or another device than the CPU."""
        if history(self) is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if stream is not None:
            raise AssertionError("stream should be None on cpu.")
        return capsules.export(self.numpy(), max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()

    def item(self) -> int | float | bool:  # or complex, which PyTorch does not tell type checkers either
        """The value of a tensor with one element, as a Python number; RuntimeError for any other number of elements.

        Example::

            >>> import ferro
            >>> ferro.tensor([2.5]).item()
            2.5
        """
        try:
            value: Any = self._data.item()
        except ValueError:
            raise RuntimeError(f"a Tensor with {self._data.size} elements cannot be converted to Scalar") from None
        if self._node is not None:
            departed("item()")
        return value if type(value) is float or isinstance(value, (bool, int, complex)) else float(value)  # pyright: ignore[reportReturnType]

    def tolist(self) -> Any:
        """The tensor as (nested lists of) Python numbers."""
        if self._node is not None:
            departed("tolist()")
        return (self._data.astype(np.float32) if self._data.dtype in dtypes.HALF else self._data).tolist()

    def __float__(self) -> float:
        return float(self._real("double"))

    def __int__(self) -> int:
        return int(self._real("int64_t"))

    def __complex__(self) -> complex:
        return complex(self._one())

    def _real(self, kind: str) -> Any:
        """The one number, without an imaginary part."""
        value = self._one()
        if type(value) is not complex:
            return value
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {kind} without overflow: {value} has an imaginary part"
            )
        return value.real

    def _one(self) -> Any:
        if self._data.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars; this one has the shape {list(self._data.shape)}"
            )
        if self._node is not None:
            warn_once(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using "
                "tensor.detach() first.",
                stacklevel=3,
            )
        return self.item()

    def __index__(self) -> int:
        if self._data.dtype.kind not in "biu" or self._data.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._data.item())

    def __format__(self, spec: str) -> str:
        if self._data.ndim == 0 and (spec or (type(self) is Tensor and isinstance(self._data, np.ndarray))):
            return format(self.item(), spec)  # `f"{loss}"` is the number
        return object.__format__(self, spec) if spec else repr(self)

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (TensorBase, bool, int, float, complex, np.number, np.bool_)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self._data == (element._data if isinstance(element, TensorBase) else element)).any())

    def __repr__(self) -> str:
        from ferro.overrides import overrides

        return describe(self, type(self).__name__ if overrides(type(self)) else "tensor")

    def cpu(self, memory_format: Any = None) -> Tensor:
        """The tensor on the CPU: itself, if it lies there."""
        return self if type(self._data) is HOST else self.to(CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor on a GPU; RuntimeError where there is none."""
        return self.to("cuda")

    def xpu(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor on a GPU of Intel's; RuntimeError: there is none."""
        return self.to("xpu")

    def mtia(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor on an accelerator of Meta's; RuntimeError: there is none."""
        return self.to("mtia")

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
                "Use clone() or detach() first."
            )
        if id(self) in memo:
            return memo[id(self)]
        t = wrap(copied(self._data, memo), self._node, type(self))
        memo[id(self)] = t
        if self.grad is not None:
            meta_of(t).grad = self.grad.__deepcopy__(memo)
        for name, value in getattr(self, "__dict__", {}).items():
            t.__dict__[name] = copy.deepcopy(value, memo)
        return t

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self._data if self._data.flags.f_contiguous else np.ascontiguousarray(self._data)
        return _rebuild, (
            type(self),
            data.reshape(self._data.shape, order="A"),
            self.requires_grad,
            getattr(self, "__dict__", None) or None,
        )

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise RuntimeError(
                "Boolean value of Tensor with more than one value is ambiguous"
                if self._data.size
                else "Boolean value of Tensor with no values is ambiguous"
            )
        return bool(self._data.item() if type(self._data) is np.ndarray else self._data)

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._data.shape[0]

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self._data.ndim else self

    def __iter__(self) -> Iterator[Tensor]:
        if self._data.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    if TYPE_CHECKING:  # (what a mixin has would be taken to return bool, as object's do)

        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]

    __hash__: Any = object.__hash__  # by identity (unique among living objects), though == compares elements


def _rebuild(cls: type, data: Any, requires_grad: bool, attributes: dict | None) -> Any:
    """A pickled tensor."""
    t = wrap(dtypes.own(data), LEAF if requires_grad else None, cls)
    if attributes:
        t.__dict__.update(attributes)
    return t


bind(Tensor)


def _complex_half(x: Any, requires_grad: bool = False) -> Any:
    from ferro.complex_half import (
        rounded,  # (a subclass makes all functions ask their arguments: not before it is needed)
    )

    return rounded(x).requires_grad_(requires_grad)


backend.complex_half = _complex_half
