"""ferro.backends: what it says of libraries is what a build of PyTorch without CUDA says, and switches are kept."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import ferro
from ferro.backends import switches

SWITCHES = (
    "cudnn.enabled",
    "cudnn.benchmark",
    "cudnn.deterministic",
    "cudnn.allow_tf32",
    "mkldnn.enabled",
    "mkldnn.deterministic",
    "cuda.matmul.allow_tf32",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
)
PRECISIONS = ("", "cuda.matmul", "cudnn", "cudnn.conv", "mkldnn", "mkldnn.matmul", "mkldnn.conv")


def reach(package, path: str):
    """The object behind a dotted path, and the last name."""
    *folders, name = path.split(".")
    owner = package.backends
    for folder in folders:
        owner = getattr(owner, folder)
    return owner, name


@pytest.mark.parametrize("path", SWITCHES)
def test_a_switch_begins_as_in_pytorch_is_kept_and_takes_bools_only(path, torch):
    owner, name = reach(ferro, path)
    theirs, _ = reach(torch, path)
    before = getattr(owner, name)
    assert before is getattr(theirs, name)
    try:
        setattr(owner, name, not before)
        assert getattr(owner, name) is (not before)
        with pytest.raises((RuntimeError, TypeError)) as error:
            setattr(theirs, name, 1)
        with pytest.raises(error.type) as ours:
            setattr(owner, name, 1)
        assert str(error.value) in str(ours.value)
        assert getattr(owner, name) is (not before)
    finally:
        setattr(owner, name, before)
        switches.ASKED.clear()


def test_what_is_not_there_says_so(torch):
    for path in ("cudnn", "mps", "cuda"):
        for question in ("is_available", "is_built"):
            ours, theirs = (getattr(getattr(p.backends, path), question, None) for p in (ferro, torch))
            if theirs is not None:
                assert ours() is False
    assert ferro.backends.cudnn.version() is None
    assert not ferro.backends.mkldnn.is_available()
    assert not ferro.backends.openmp.is_available()
    for name in ("enabled", "strategy"):
        with pytest.raises(ValueError, match=f"opt_einsum is not available, so setting `{name}`"):
            setattr(ferro.backends.opt_einsum, name, "auto")
    with pytest.raises(RuntimeError, match="foo is not a valid value for quantized engine"):
        ferro.backends.quantized.engine = "foo"
    with pytest.raises(RuntimeError, match="not supported"):
        ferro.backends.quantized.engine = "fbgemm"
    with pytest.raises(RuntimeError, match="Failed to set MKLDNN into verbose mode"), ferro.backends.mkldnn.verbose(1):
        pass
    with pytest.raises(RuntimeError, match=r"Unknown input value\. Choose from: default, cusolver, magma\."):
        ferro.backends.cuda.preferred_linalg_library("foo")


def test_precisions_asked_of_all_of_a_library_and_of_an_operation(torch):
    def read(package):
        return [reach(package, path + ".x")[0].fp32_precision for path in PRECISIONS[1:]]

    steps = [
        ("fp32_precision", "ieee"),
        ("cudnn.fp32_precision", "tf32"),
        ("mkldnn.matmul.fp32_precision", "bf16"),
        ("fp32_precision", "bf16"),
        ("cudnn.fp32_precision", "none"),
        ("mkldnn.matmul.fp32_precision", "none"),
        ("fp32_precision", "none"),
    ]
    assert read(ferro) == read(torch)
    for path, wish in steps:
        for package in (ferro, torch):
            setattr(*reach(package, path), wish)
        assert read(ferro) == read(torch), (path, wish)
    for path, wish in (("fp32_precision", "foo"), ("cuda.matmul.fp32_precision", "bf16")):
        errors = []
        for package in (torch, ferro):
            with pytest.raises(RuntimeError) as error:
                setattr(*reach(package, path), wish)
            errors.append(str(error.value))
        assert errors[0] in errors[1]


def test_flags_are_put_back_and_decorate():
    cudnn = ferro.backends.cudnn
    with cudnn.flags(enabled=False, benchmark=True, deterministic=True, allow_tf32=False):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (False, True, True, False)

    @cudnn.flags(enabled=False)
    def inside():
        return cudnn.enabled

    assert [inside(), inside(), cudnn.enabled, cudnn.allow_tf32] == [False, False, True, True]
    with ferro.backends.mkldnn.flags(enabled=False), ferro.backends.nnpack.flags(False):
        assert not ferro.backends.mkldnn.enabled
    assert ferro.backends.mkldnn.enabled
    with pytest.warns(FutureWarning, match="sdp_kernel"), ferro.backends.cuda.sdp_kernel(enable_math=False):
        assert not ferro.backends.cuda.math_sdp_enabled()
    assert ferro.backends.cuda.math_sdp_enabled()


def test_precision_of_products_is_permitted_and_not_used(rng, torch):
    x = ferro.from_numpy(rng.standard_normal((8, 8)).astype("float32"))
    before = (x @ x).numpy().tobytes()
    for wish in ("high", "medium", "highest"):
        for package in (ferro, torch):
            package.set_float32_matmul_precision(wish)
            assert package.get_float32_matmul_precision() == wish
        assert ferro.backends.cuda.matmul.allow_tf32 == torch.backends.cuda.matmul.allow_tf32
        assert (x @ x).numpy().tobytes() == before
    with pytest.warns(UserWarning, match="foo is not one of 'highest', 'high', or 'medium'"):
        ferro.set_float32_matmul_precision("foo")
    assert ferro.get_float32_matmul_precision() == "highest"
    switches.ASKED.clear()


@pytest.mark.parametrize("name", sorted(set(ferro.backends.__all__) - {"flags"}))
def test_its_modules_can_be_imported_and_their_names_are_there(name):
    module = importlib.import_module(f"ferro.backends.{name}")
    assert getattr(ferro.backends, name) is module
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public)


def test_they_are_read_when_asked_for():
    program = (
        "import sys, ferro; assert 'ferro.backends.cudnn' not in sys.modules; ferro.backends.cudnn.benchmark = True"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
