"""The order of dimensions in memory of what operations give: the strides are PyTorch's, whatever the inputs' are."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import Call, arrays_of, entries, rng_of


def _images(library: Any, *shape: int, last: bool = True) -> Any:
    a = np.random.default_rng(0).standard_normal(shape)
    t = library.from_numpy(a)
    return t.contiguous(memory_format=library.channels_last) if last else t


def _both(torch: Any, function: Any) -> None:
    """The function of a library gives tensors of the same strides in both."""
    found = []
    for library in (torch, ferro):
        out = function(library)
        found.append([tuple(t.stride()) for t in (out if isinstance(out, tuple) else (out,))])
    assert found[1] == found[0]


@pytest.mark.parametrize("name", ["add", "mul", "eq", "maximum", "pow", "atan2", "logical_and"])
def test_the_first_operand_that_tells_dimensions_apart_decides(torch: Any, name: str) -> None:
    for p in permutations(range(3)):
        for q in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):

            def function(library: Any, p: Any = p, q: Any = q) -> Any:
                x = library.ones(2, 3, 4).permute(p)
                y = library.ones([x.shape[q.index(d)] for d in range(3)]).permute(q)
                row = library.ones(x.shape[-1])
                f = getattr(library, name)
                y = y if y.shape == x.shape else x.contiguous()
                return f(x, y), f(y, x), f(x, row), f(row, x)

            _both(torch, function)


def test_elementwise_results_of_large_arrays_and_of_mixed_layouts(torch: Any) -> None:
    for last, other in ((True, True), (True, False), (False, True)):

        def function(library: Any, last: bool = last, other: bool = other) -> Any:
            x, y = _images(library, 4, 8, 32, 33, last=last), _images(library, 4, 8, 32, 33, last=other)
            bias = library.ones(1, 8, 1, 1, dtype=library.float64)
            w = library.where(x > 0, x, y)
            return (
                x + y,
                x * y,
                x - 1,
                x * bias,
                bias + x,
                x.exp(),
                x.relu(),
                w,
                library.addcmul(x, x, y),
                library.lerp(x, y, 0.3),
                x > y,
            )

        _both(torch, function)


def test_copies_casts_and_likes_keep_the_layout_or_take_the_format(torch: Any) -> None:
    def function(library: Any) -> Any:
        x = _images(library, 2, 3, 4, 5)
        expanded, gapped = library.ones(2, 1, 4).expand(2, 3, 4), x[:, :, ::2]
        formats = (library.preserve_format, library.contiguous_format, library.channels_last)
        found = [
            x[0].unsqueeze(0).clone(),
            expanded.clone(),
            gapped.clone(),
            library.zeros_like(gapped),
            x.float(),
            x.to(library.float32),
        ]
        for make in (library.empty_like, library.zeros_like, library.ones_like, library.rand_like, library.randn_like):
            found += [make(x), *[make(t, memory_format=f) for f in formats for t in (x, x.contiguous())]]
        for f in formats:
            found += [x.clone(memory_format=f), x.float(memory_format=f), x.to(library.float32, memory_format=f)]
            found += [library.full_like(x, 2, memory_format=f), x.contiguous().to(memory_format=f)]
        return tuple(found)

    _both(torch, function)


@pytest.mark.parametrize("which", ["cat", "stack", "flip", "index_fill", "cumsum", "softmax", "scatter_add"])
def test_operations_that_lay_their_results_by_themselves(torch: Any, which: str) -> None:
    def function(library: Any) -> Any:
        x, y = _images(library, 2, 3, 4, 5), _images(library, 2, 3, 4, 5, last=False)
        index = library.tensor([0, 1])
        return {
            "cat": lambda: (library.cat((x, x), 1), library.cat((x, y), 1), library.cat((x[0], x[0]), 1)),
            "stack": lambda: library.stack((x[0], x[0])),
            "flip": lambda: library.flip(x, (1,)),
            "index_fill": lambda: x.index_fill(1, index, 1.0),
            "cumsum": lambda: library.cumsum(x, 1),
            "softmax": lambda: library.softmax(x[0], 1),
            "scatter_add": lambda: x.scatter_add(1, library.zeros(2, 3, 4, 5, dtype=library.int64), x),
        }[which]()

    _both(torch, function)


@pytest.mark.parametrize(
    "which",
    [
        "conv2d",
        "conv_transpose2d",
        "max_pool2d",
        "avg_pool2d",
        "adaptive_avg_pool2d",
        "batch_norm",
        "group_norm",
        "instance_norm",
        "interpolate",
    ],
)
def test_layers_keep_channels_last(torch: Any, which: str) -> None:
    def function(library: Any) -> Any:
        x, F = _images(library, 2, 4, 6, 6), library.nn.functional
        w = library.ones(4, 4, 3, 3, dtype=library.float64)
        return {
            "conv2d": lambda: F.conv2d(x, w),
            "conv_transpose2d": lambda: F.conv_transpose2d(x, w),
            "max_pool2d": lambda: F.max_pool2d(x, 2, return_indices=True),
            "avg_pool2d": lambda: F.avg_pool2d(x, 2),
            "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(x, 3),
            "batch_norm": lambda: F.batch_norm(x, None, None, training=True),
            "group_norm": lambda: F.group_norm(x, 2),
            "instance_norm": lambda: F.instance_norm(x),
            "interpolate": lambda: F.interpolate(x, scale_factor=2.0),
        }[which]()

    _both(torch, function)


@pytest.mark.parametrize(
    "shape", [(8, 1, 3, 3), (4, 5, 1, 1), (2, 3, 1, 4), (2, 3, 4, 5), (1, 2, 3, 1), (2, 3, 4, 1, 1)]
)
def test_a_format_that_is_asked_for_decides_along_dimensions_of_one_element(torch: Any, shape: tuple) -> None:
    def function(library: Any) -> Any:
        x, last = library.ones(shape), library.channels_last if len(shape) == 4 else library.channels_last_3d
        module = library.nn.Module()
        module.p = library.nn.Parameter(x)
        there = x.to(memory_format=last)
        assert there.to(memory_format=last) is there
        found = [there, x.clone(memory_format=last), x.to(library.float64, memory_format=last)]
        found += [module.to(memory_format=last).p, there.to(memory_format=library.contiguous_format)]
        return (*found, there.clone(memory_format=library.contiguous_format))

    _both(torch, function)


def test_a_batch_of_images_of_width_one_is_normalised_where_it_lies(torch: Any) -> None:
    def function(library: Any) -> Any:
        x = library.arange(6.0).reshape(1, 3, 2, 1).permute(0, 2, 1, 3)
        norm = library.nn.BatchNorm2d(2)
        return norm(x), norm.eval()(x), library.nn.BatchNorm3d(2)(x[..., None])

    _both(torch, function)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_gradients_of_resampled_images_keep_channels_last(torch: Any, mode: str) -> None:
    for library in (torch, ferro):
        for shape in ((1, 2, 2, 1), (2, 3, 2, 2)):
            x = _images(library, *shape).requires_grad_()
            y = library.nn.functional.interpolate(x, size=(4, 2), mode=mode)
            y.backward(library.ones_like(y))
            assert y.is_contiguous(memory_format=library.channels_last)
            assert x.grad.is_contiguous(memory_format=library.channels_last)


def test_out_is_laid_in_memory_as_the_result(torch: Any) -> None:
    def function(library: Any) -> Any:
        x = _images(library, 2, 3, 4, 5)
        return library.add(x, x, out=library.empty(0, dtype=library.float64))

    _both(torch, function)


# Products whose operands PyTorch exchanges, and a stride along a dimension of one element.
NOT_HERE = {"einsum", "linalg.lu_solve", "triangular_solve"}


@pytest.mark.parametrize(
    "entry", [e for e in entries() if e.reference == "torch" and e.path not in NOT_HERE], ids=lambda e: e.path
)
def test_what_pytorch_gives_without_gaps_can_be_viewed(entry: Any, torch: Any) -> None:
    for sample in entry.samples[:3]:
        arrays = arrays_of(sample, rng_of(entry.path), "float64")
        theirs, ours = (Call(entry, sample, f, [a.copy() for a in arrays], False).run() for f in (torch, ferro))
        for a, b in zip(_tensors(torch, theirs), _tensors(ferro, ours), strict=True):
            if a.layout is torch.strided and a.shape == b.shape and a.is_contiguous():
                assert b.is_contiguous(), (sample, a.stride(), b.stride())


def _tensors(library: Any, found: Any) -> list:
    if isinstance(found, (tuple, list)):
        return [t for f in found for t in _tensors(library, f)]
    return [found] if isinstance(found, library.Tensor) else []


def test_repeated_elements_have_memory_of_their_own() -> None:
    for x, times in ((ferro.tensor(1.0), 2), (ferro.ones(1, 3), 2), (ferro.ones(3), 1)):
        y = ferro.repeat_interleave(x, times, *([0] if x.ndim else []))
        y += 1
        assert set(x.flatten().tolist()) == {1.0}
        assert set(y.flatten().tolist()) == {2.0}


def test_out_takes_the_strides_of_the_result(torch: Any) -> None:
    for p in permutations(range(4)):

        def function(library: Any, p: Any = p) -> Any:
            x = library.ones(1, 1, 4, 12)[:, :, :, ::2].permute(p)
            return library.add(x, x), library.add(x, x, out=library.empty(0))

        _both(torch, function)
