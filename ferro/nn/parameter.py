"""Parameter and Buffer: tensors that a module registers when they are assigned to it, and their forms without a shape yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

from ferro._overriding import disabled
from ferro.core import dtypes, tape
from ferro.core.base import LEAF, TensorBase, wrap
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is a module's to learn: a leaf that shares the data of the given one and asks for a gradient.

    - `data` (Tensor, default None): the elements; None is an empty tensor
    - `requires_grad` (bool, default True): False freezes it

    Example::

        >>> import ferro
        >>> module = ferro.nn.Module()
        >>> module.scale = ferro.nn.Parameter(ferro.ones(2))
        >>> [name for name, _ in module.named_parameters()]
        ['scale']
    """

    __torch_function__ = disabled  # what is computed from parameters are tensors

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        param = _sharing(cls, data)
        return param._as_leaf(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _parameter, (type(self), self.data, self.requires_grad, self.__dict__)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


tape.fill(Parameter=Parameter)


class Buffer(Tensor):
    """A tensor that is a module's to keep, not to learn: assigned to a module, it moves and is saved with it.

    - `data` (Tensor, default None): the elements; None is an empty tensor
    - `persistent` (bool, default True): False keeps it out of state_dict

    Example::

        >>> import ferro
        >>> module = ferro.nn.Module()
        >>> module.mean = ferro.nn.Buffer(ferro.zeros(2))
        >>> list(module.state_dict())
        ['mean']
    """

    __torch_function__ = disabled

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        buffer = _sharing(cls, data)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), persistent=self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _buffer, (type(self), self.data, self.persistent)


def _sharing(cls: type[Tensor], data: Tensor | None) -> Any:
    if data is None:
        data = empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: expected a ferro.Tensor as data, got {type(data).__name__}")
    return wrap(data._data, None, cls)


# -------------------------------------------------------------------- without a shape yet

_array: Any = TensorBase._data  # the slot that the classes below hide from operations


def _of_the_same_kind(name: str) -> Callable[..., Any]:
    """The method `name` of a conversion, which keeps a tensor without a shape what it is, but for its dtype."""

    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        converted = getattr(self.data, name)(*args, **kwargs)
        return type(self)(self.requires_grad, dtype=converted.dtype)

    convert.__name__ = name
    return convert


class UninitializedTensorMixin:
    """A tensor that knows its dtype but not its shape, and becomes a `cls_to_become` by `materialize`.

    It may be converted and copied; every operation raises ValueError.
    """

    __slots__ = ()

    cls_to_become: type
    requires_grad: bool

    @property
    def _data(self) -> NoReturn:
        raise ValueError(
            "Attempted to use an uninitialized parameter in an operation. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{type(self).__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch functions"
        )

    @_data.setter
    def _data(self, value: Any) -> None:
        _array.__set__(self, value)

    @property
    def data(self) -> Tensor:
        """An empty tensor of the dtype."""
        return wrap(_array.__get__(self))

    @data.setter
    def data(self, value: Tensor) -> None:
        _array.__set__(self, value.data._data)

    @property
    def dtype(self) -> dtypes.dtype:
        """The data type."""
        return self.data.dtype

    @property
    def shape(self) -> NoReturn:
        """What is not known yet: RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> NoReturn:
        """RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or tensor of `shape`, with any content; the object stays the same.

        >>> import ferro
        >>> weight = ferro.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> type(weight).__name__, weight.shape
        ('Parameter', ferro.Size([2, 3]))
        """
        self.data = empty(shape, device=device, dtype=self.dtype if dtype is None else dtype)
        self.__class__ = self.cls_to_become

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:
        """Nothing, from another one without a shape; ValueError from any other tensor."""
        if not is_lazy(src):
            raise ValueError(f"copy_: a {type(self).__name__} has no elements; call materialize(shape) first")
        return self

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    to = _of_the_same_kind("to")
    cpu = _of_the_same_kind("cpu")
    half = _of_the_same_kind("half")
    bfloat16 = _of_the_same_kind("bfloat16")
    float = _of_the_same_kind("float")
    double = _of_the_same_kind("double")
    char = _of_the_same_kind("char")
    short = _of_the_same_kind("short")
    int = _of_the_same_kind("int")
    long = _of_the_same_kind("long")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        if id(self) not in memo:
            cls: Any = type(self)
            memo[id(self)] = cls(self.requires_grad, dtype=self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape the first batch will tell; lazy modules make it.

    - `requires_grad` (bool, default True): whether it is learned
    - `device`, `dtype` (default None): of the parameter it becomes

    `materialize(shape)` gives it a shape, with elements still to be filled; until then RuntimeError or
    ValueError where one is needed.

    Example::

        >>> import ferro
        >>> weight = ferro.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape
        ferro.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Self:
        return _unshaped(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[misc]
    """A buffer whose shape the first batch will tell; lazy modules make it.

    - `requires_grad` (bool, default False): whether a gradient is kept
    - `device`, `dtype` (default None): of the tensor it becomes
    - `persistent` (bool, default True): False keeps it out of state_dict

    `materialize(shape)` gives it a shape, with elements still to be filled; until then RuntimeError or
    ValueError where one is needed.

    Example::

        >>> import ferro
        >>> mean = ferro.nn.UninitializedBuffer()
        >>> mean.materialize((2, 3))
        >>> mean.shape
        ferro.Size([2, 3])
    """

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Self:
        buffer = _unshaped(cls, requires_grad, device, dtype)
        buffer.persistent = persistent
        return buffer


def _unshaped(cls: type, requires_grad: bool, device: Any, dtype: Any) -> Any:
    return wrap(empty(0, device=device, dtype=dtype)._data, LEAF if requires_grad else None, cls)


def is_lazy(param: Any) -> bool:
    """Whether `param` is a parameter or buffer without a shape.

    >>> import ferro
    >>> is_lazy(ferro.nn.UninitializedParameter()), is_lazy(ferro.nn.Linear(2, 3).weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


# -------------------------------------------------------------------- pickles


def _parameter(cls: type[Parameter], data: Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Parameter:
    param = cls(data, requires_grad)
    param.__dict__.update(attributes)
    return param


def _buffer(cls: type[Buffer], data: Tensor, persistent: bool) -> Buffer:
    return cls(data, persistent=persistent)
