"""Tensors in other libraries' hands: NumPy's conversions, DLPack, pandas, scikit-learn, matplotlib, Pillow, tqdm, einops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import run_python

REFUSED = r"Can't call numpy\(\) on Tensor that requires grad"
DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int32",
    "int64",
    "uint16",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def table() -> Any:
    return ferro.arange(6.0).reshape(2, 3)


# -- NumPy ----------------------------------------------------------------------------------------------------------------


def test_numpys_conversions_share_memory_copy_and_cast_on_request() -> None:
    x = table()
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.shares_memory(np.array(x, copy=False), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.asarray(x.T).strides == x.numpy().T.strides
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.array(x, np.float64, copy=False)
    with pytest.raises(RuntimeError, match=REFUSED):
        np.asarray(x.requires_grad_())


# -- DLPack ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_and_pytorch_share_memory_both_ways(torch: Any, dtype: str) -> None:
    x = table().to(getattr(ferro, dtype))
    theirs = torch.from_dlpack(x)
    assert str(theirs.dtype) == f"torch.{dtype}"
    back = [ferro.from_dlpack(theirs), ferro.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)), ferro.from_dlpack(x)]
    for y in back:
        assert (y.dtype, y.tolist(), y.data_ptr()) == (x.dtype, x.tolist(), x.data_ptr())
    back[0][0, 0] = 1
    assert bool(theirs[0, 0] == 1)
    assert torch.from_dlpack(x.T).stride() == ferro.from_dlpack(theirs.T).stride() == (1, 3)
    assert ferro.from_dlpack(theirs, copy=True).data_ptr() != theirs.data_ptr()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_dlpack_and_numpy_share_memory_both_ways(dtype: str) -> None:
    x = table().to(getattr(ferro, dtype))
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    y = ferro.from_dlpack(array)
    assert (y.data_ptr(), y.dtype) == (x.data_ptr(), x.dtype)


def test_dlpack_keeps_memory_alive_and_what_is_read_only() -> None:
    y = ferro.from_dlpack(table().to(ferro.bfloat16) * 2)
    assert y.tolist() == [[0, 2, 4], [6, 8, 10]]
    array = np.ones(3)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        ferro.from_dlpack(array)[0] = 2


def test_dlpacks_refusals() -> None:
    capsule = table().__dlpack__()
    ferro.from_dlpack(capsule)
    for given in (capsule, 3, np.float64):
        with pytest.raises((RuntimeError, TypeError), match=r"invalid capsule|missing"):
            ferro.from_dlpack(given)
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        table().__dlpack__(stream=1)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        (table().requires_grad_() * 2).__dlpack__()
    with pytest.raises(BufferError):
        ferro.from_dlpack(np.array(["text"]))
    assert table().__dlpack_device__() == (1, 0)


# -- pandas, scikit-learn -------------------------------------------------------------------------------------------------


def test_pandas_reads_tensors_and_tensors_read_pandas() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    x, y = table(), ferro.tensor([0, 1])
    assert pd.DataFrame(x).to_numpy().tolist() == x.tolist()
    frame = pd.DataFrame({"a": y, "b": x[:, 0]})
    assert (frame["a"].dtype, frame["b"].dtype) == (np.int64, np.float32)
    assert frame.assign(c=ferro.ones(2))["c"].tolist() == [1, 1]
    for given, dtype in (
        (pd.Series([1.0, 2.0]), ferro.float64),
        (frame[["a"]], ferro.int64),
        (frame["b"].to_numpy(), ferro.float32),
    ):
        assert ferro.tensor(given).tolist() == np.asarray(given).tolist()
        assert ferro.as_tensor(given).dtype is dtype
    with pytest.raises(RuntimeError, match=REFUSED):
        pd.Series(ferro.ones(2, requires_grad=True))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_scikit_learn_takes_tensors_as_x_and_y() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    metrics, selection = pytest.importorskip("sklearn.metrics"), pytest.importorskip("sklearn.model_selection")
    x, y = ferro.tensor([[0.0], [1.0], [2.0], [3.0]]), ferro.tensor([0, 0, 1, 1])
    model = linear_model.LogisticRegression().fit(x, y)
    assert (
        model.predict(x).tolist()
        == linear_model.LogisticRegression().fit(x.numpy(), y.numpy()).predict(x.numpy()).tolist()
    )
    assert metrics.accuracy_score(y, model.predict(x)) == 1
    parts = selection.train_test_split(x, y, test_size=0.5, random_state=0)
    assert [type(p) for p in parts] == [ferro.Tensor] * 4
    with pytest.raises(RuntimeError, match=REFUSED):
        linear_model.LinearRegression().fit(x.requires_grad_(), y)


# -- pictures, progress ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")  # (which is said once)
def test_matplotlib_draws_tensors() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    assert matplotlib.__version__
    axes = Figure().subplots()
    canvas = FigureCanvasAgg(axes.figure)
    x, recorded = table(), ferro.ones(2, 3, requires_grad=True)
    assert axes.plot(x[0], x[1])[0].get_ydata().tolist() == [3, 4, 5]
    assert axes.hist(x.flatten(), bins=3)[0].tolist() == [2, 2, 2]
    assert axes.imshow(x).get_array().tolist() == x.tolist()
    axes.scatter(x[0], x[1], c=x[0])
    axes.bar(x[0], x[1])
    axes.errorbar(x[0], x[1], yerr=x[0])
    axes.fill_between(x[0], x[1])
    axes.plot([x[0, 0], x[0, 1]])
    canvas.draw()
    for draw in (axes.imshow, axes.hist):
        with pytest.raises(RuntimeError, match=REFUSED):
            draw(recorded)
    with pytest.raises(RuntimeError, match=REFUSED):
        axes.plot(recorded[0], recorded[1])


def test_pillow_and_tensors() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    x = table().to(ferro.uint8)
    picture = image.fromarray(x.numpy())
    assert picture.size == (3, 2)
    assert ferro.from_numpy(np.array(picture)).tolist() == x.tolist()


def test_tqdm_goes_over_tensors() -> None:
    tqdm = pytest.importorskip("tqdm", reason="tqdm is not installed")
    bar = tqdm.tqdm(table(), disable=True)
    bar.set_postfix(loss=ferro.tensor(0.5))
    assert [row.tolist() for row in bar] == table().tolist()


def test_einops_takes_tensors_where_ferro_stands_for_torch() -> None:
    pytest.importorskip("einops", reason="einops is not installed")
    program = """
        import ferro.as_torch
        ferro.as_torch.install()
        import einops, torch
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        einops.reduce(einops.rearrange(x, "a b -> b a") * 2, "a b -> a", "sum").sum().backward()
        print(x.grad.tolist(), einops.einsum(x, x, "a b, c b -> a c").tolist(), einops.parse_shape(x, "a b"))
    """
    said = run_python("\n".join(line.strip() for line in program.splitlines()), FERRO_KERNELS="off")
    assert said == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]] [[5.0, 14.0], [14.0, 50.0]] {'a': 2, 'b': 3}"
