"""Functions that take `device`: with "cuda" the result lies there, with the numbers of the CPU's."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro

pytestmark = pytest.mark.usefixtures("cuda")

WINDOWS = ferro.signal.windows
# By the name in the source: a call with these further arguments.
CALLS: dict[str, Callable[..., Any]] = {
    "arange": lambda **k: ferro.arange(5, **k),
    "as_tensor": lambda **k: ferro.as_tensor([1.0, 2.0], **k),
    "asarray": lambda **k: ferro.asarray(np.ones(3), **k),
    "bartlett": lambda **k: WINDOWS.bartlett(5, **k),
    "bartlett_window": lambda **k: ferro.bartlett_window(5, **k),
    "blackman": lambda **k: WINDOWS.blackman(5, **k),
    "blackman_window": lambda **k: ferro.blackman_window(5, **k),
    "cosine": lambda **k: WINDOWS.cosine(5, **k),
    "eye": lambda **k: ferro.eye(3, **k),
    "exponential": lambda **k: WINDOWS.exponential(5, **k),
    "fftfreq": lambda **k: ferro.fft.fftfreq(5, **k),
    "full": lambda **k: ferro.full((2,), 7.0, **k),
    "full_like": lambda **k: ferro.full_like(ferro.ones(2), 7.0, **k),
    "gaussian": lambda **k: WINDOWS.gaussian(5, **k),
    "general_cosine": lambda **k: WINDOWS.general_cosine(5, a=[0.5, 0.3, 0.2], **k),
    "general_hamming": lambda **k: WINDOWS.general_hamming(5, **k),
    "hamming": lambda **k: WINDOWS.hamming(5, **k),
    "hamming_window": lambda **k: ferro.hamming_window(5, **k),
    "hann": lambda **k: WINDOWS.hann(5, **k),
    "hann_window": lambda **k: ferro.hann_window(5, **k),
    "kaiser": lambda **k: WINDOWS.kaiser(5, **k),
    "kaiser_window": lambda **k: ferro.kaiser_window(5, **k),
    "linspace": lambda **k: ferro.linspace(0, 1, 4, **k),
    "logspace": lambda **k: ferro.logspace(0, 1, 4, **k),
    "new_full": lambda **k: ferro.ones(2).new_full((3,), 7.0, **k),
    "new_ones": lambda **k: ferro.ones(2).new_ones(3, **k),
    "new_tensor": lambda **k: ferro.ones(2).new_tensor([3.0], **k),
    "new_zeros": lambda **k: ferro.ones(2).new_zeros(3, **k),
    "nuttall": lambda **k: WINDOWS.nuttall(5, **k),
    "ones": lambda **k: ferro.ones(2, **k),
    "ones_like": lambda **k: ferro.ones_like(ferro.zeros(2), **k),
    "range_": lambda **k: ferro.range(0, 3, **k),
    "rfftfreq": lambda **k: ferro.fft.rfftfreq(5, **k),
    "scalar_tensor": lambda **k: ferro.scalar_tensor(2.0, **k),
    "sparse_compressed_tensor": lambda **k: ferro.sparse_compressed_tensor(
        [0, 1], [0], [1.0], (1, 2), layout=ferro.sparse_csr, **k
    ),
    "sparse_coo_tensor": lambda **k: ferro.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), **k),
    "sparse_csc_tensor": lambda **k: ferro.sparse_csc_tensor([0, 1], [0], [1.0], (2, 1), **k),
    "sparse_csr_tensor": lambda **k: ferro.sparse_csr_tensor([0, 1], [0], [1.0], (1, 2), **k),
    "tensor": lambda **k: ferro.tensor([1.0, 2.0], **k),
    "to": lambda **k: ferro.ones(2).to(**k),
    "tril_indices": lambda **k: ferro.tril_indices(3, 3, **k),
    "triu_indices": lambda **k: ferro.triu_indices(3, 3, **k),
    "zeros": lambda **k: ferro.zeros(2, **k),
    "zeros_like": lambda **k: ferro.zeros_like(ferro.ones(2), **k),
}
# Whose numbers are not those of the CPU: random ones, and memory that is not written.
OTHERS: dict[str, Callable[..., Any]] = {
    "from_dlpack": lambda **k: ferro.from_dlpack(np.ones(2), **k),
    "empty": lambda **k: ferro.empty(2, **k),
    "empty_like": lambda **k: ferro.empty_like(ferro.ones(2), **k),
    "empty_permuted": lambda **k: ferro.empty_permuted((2, 3), (1, 0), **k),
    "empty_strided": lambda **k: ferro.empty_strided((2, 3), (1, 2), **k),
    "new_empty": lambda **k: ferro.ones(2).new_empty(3, **k),
    "new_empty_strided": lambda **k: ferro.ones(2).new_empty_strided((2, 3), (1, 2), **k),
    "normal": lambda **k: ferro.normal(0.0, 1.0, (2,), **k),
    "rand": lambda **k: ferro.rand(2, **k),
    "rand_like": lambda **k: ferro.rand_like(ferro.ones(2), **k),
    "randint": lambda **k: ferro.randint(3, (2,), **k),
    "randint_like": lambda **k: ferro.randint_like(ferro.ones(2), 3, **k),
    "randn": lambda **k: ferro.randn(2, **k),
    "randn_like": lambda **k: ferro.randn_like(ferro.ones(2), **k),
    "randperm": lambda **k: ferro.randperm(3, **k),
}
ON_THE_CPU = {"TypedStorage", "from_file"}  # memory of the processor


def taking_device() -> set[str]:
    """The functions and classes of `ferro.ops`, `sparse` and `core` whose documentation has a line for `device`."""
    found = set()
    folder = Path(ferro.__file__).parent
    for name in ("ops", "sparse", "core"):
        for file in (folder / name).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and "- `device` (device, default None)" in (
                    ast.get_docstring(node) or ""
                ):
                    found.add(node.name)
    return found


def test_these_are_all_that_document_a_device() -> None:
    assert taking_device() == {*CALLS, *OTHERS, *ON_THE_CPU}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("name", sorted({**CALLS, **OTHERS}))
def test_the_result_lies_on_the_device(name: str, cuda: str) -> None:
    made = (CALLS.get(name) or OTHERS[name])(device=cuda)
    assert made.device == ferro.device("cuda", 0), made.device
    if name in CALLS:
        want = CALLS[name]()
        made, want = (t.to_dense() if t.layout is not ferro.strided else t for t in (made, want))
        assert made.dtype is want.dtype
        np.testing.assert_array_equal(made.cpu().numpy(), want.numpy())


def test_a_file_is_mapped_into_memory_of_the_processor(tmp_path: Path, cuda: str) -> None:
    place = tmp_path / "data"
    place.write_bytes(bytes([1, 2, 3]))
    with pytest.raises(NotImplementedError, match="from_file: a file is mapped into memory of the CPU"):
        ferro.from_file(str(place), size=3, dtype=ferro.uint8, device=cuda)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_typed_storage_lies_where_it_is_asked_for(cuda: str) -> None:
    for place in (cuda, "cpu"):
        storage = ferro.TypedStorage([1, 2], dtype=ferro.float32, device=place)
        assert (storage.device.type, storage.tolist()) == (place, [1.0, 2.0])
