"""SummaryWriter writes what PyTorch's writes, read back by TensorBoard's own reader; it says what it needs and refuses."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro

pytest.importorskip("tensorboard", reason="needs the extra ferro[tensorboard]")
pytest.importorskip("PIL", reason="needs the extra ferro[tensorboard]")
pytestmark = pytest.mark.timeout(120)
RNG = np.random.default_rng(3)
NUMBERS, PICTURE = RNG.normal(size=200), RNG.random((3, 4, 5))


def events(folder: Path) -> list[Any]:
    """All events in a folder, that of the file's version left out."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    Event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
    found = []
    for file in sorted(folder.rglob("events*")):
        found += [Event.FromString(raw) for raw in RawEventFileLoader(str(file)).Load()]
    return [e for e in found if not e.file_version]


def written(writer: Callable, folder: Path, t: Any, add: Callable[[Any, Any], None]) -> list[Any]:
    """What the values of one call look like in the file."""
    with writer(str(folder)) as w:
        add(w, t)
    return [(e.step, e.wall_time, v) for e in events(folder) for v in e.summary.value]


CASES: dict[str, Callable[[Any, Any], None]] = {
    "scalar": lambda w, t: w.add_scalar("loss/train", t.tensor(0.25), 3, walltime=5.0),
    "scalar of a number": lambda w, t: w.add_scalar("/loss", 0.25, t.tensor(3), 5.0),
    "scalar of an array": lambda w, t: w.add_scalar("loss", np.array([0.25]), 3, 5.0),
    "scalar in double": lambda w, t: w.add_scalar("loss", 0.1, 3, 5.0, double_precision=True),
    "scalar as a tensor": lambda w, t: w.add_scalar("loss", 0.1, 3, 5.0, new_style=True),
    "scalars": lambda w, t: w.add_scalars("loss", {"train": t.tensor(1.0), "test set": 2.0}, 3, 5.0),
    "image": lambda w, t: w.add_image("x", t.tensor(PICTURE), 3, 5.0),
    "image by rows": lambda w, t: w.add_image("x", t.tensor(PICTURE[0]), 3, 5.0, dataformats="HW"),
    "image, channels last": lambda w, t: w.add_image(
        "x", (PICTURE.T * 255).astype(np.uint8), 3, 5.0, dataformats="WHC"
    ),
    "images": lambda w, t: w.add_images("x", t.tensor(np.stack([PICTURE] * 10)), 3, 5.0),
    "text": lambda w, t: w.add_text("note", "**bold** \u00e4", 3, 5.0),
}


def pixels(encoded: bytes) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what PyTorch's writer imports
@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_what_pytorch_writes(torch: Any, tmp_path: Path, case: str) -> None:
    from torch.utils.tensorboard import SummaryWriter as Theirs

    from ferro.utils.tensorboard import SummaryWriter

    ours = written(SummaryWriter, tmp_path / "ours", ferro, CASES[case])
    theirs = written(Theirs, tmp_path / "theirs", torch, CASES[case])
    assert len(ours) == len(theirs) > 0
    for (step, time, value), (their_step, their_time, other) in zip(ours, theirs, strict=True):
        assert (step, time, value.tag, value.WhichOneof("value")) == (
            their_step,
            their_time,
            other.tag,
            other.WhichOneof("value"),
        )
        assert value.metadata.plugin_data.plugin_name == other.metadata.plugin_data.plugin_name
        if value.WhichOneof("value") == "image":
            mine, its = value.image, other.image
            if case == "images":  # (PyTorch draws ten pictures in rows of eight, too)
                assert (mine.height, mine.width) == (its.height, its.width) == (8, 40)
            np.testing.assert_array_equal(pixels(mine.encoded_image_string), pixels(its.encoded_image_string))
        elif value.WhichOneof("value") == "tensor":
            assert value.tensor.string_val == other.tensor.string_val
            assert (list(value.tensor.double_val), list(value.tensor.float_val)) == (
                list(other.tensor.double_val),
                list(other.tensor.float_val),
            )
        else:
            assert value.simple_value == other.simple_value
    folders = [
        {str(p.parent.relative_to(tmp_path / n)) for p in (tmp_path / n).rglob("events*")} for n in ("ours", "theirs")
    ]
    assert folders[0] == folders[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # as above
@pytest.mark.parametrize(
    "given",
    [{}, {"bins": "auto"}, {"bins": [-1.0, 0.0, 0.5, 4.0]}, {"max_bins": 20}],
    ids=lambda g: str(next(iter(g), "default")),
)
def test_histograms_are_pytorch_s(torch: Any, tmp_path: Path, given: dict[str, Any]) -> None:
    from torch.utils.tensorboard import SummaryWriter as Theirs

    from ferro.utils.tensorboard import SummaryWriter

    found = []
    for writer, name, t in ((SummaryWriter, "ours", ferro), (Theirs, "theirs", torch)):
        values = written(writer, tmp_path / name, t, lambda w, t: w.add_histogram("h", t.tensor(NUMBERS), 1, **given))
        h = values[0][2].histo
        found.append(
            (
                [h.min, h.max, h.num, h.sum, h.sum_squares],
                [(x, c) for x, c in zip(h.bucket_limit, h.bucket, strict=True) if c],
            )
        )
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)


def test_a_run_of_hyper_parameters_is_read_back(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import metadata

    from ferro.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as w:
        w.add_hparams(
            {"lr": 0.1, "layers": 3, "bias": True, "kind": "mlp"},
            {"accuracy": ferro.tensor(0.5)},
            run_name="run",
            global_step=7,
        )
    found = {v.tag: (e.step, v) for e in events(tmp_path / "run") for v in e.summary.value}
    content = found[metadata.SESSION_START_INFO_TAG][1].metadata.plugin_data.content
    start = metadata.parse_session_start_info_plugin_data(content)
    assert (start.hparams["lr"].number_value, start.hparams["layers"].number_value) == (0.1, 3)
    assert (start.hparams["bias"].bool_value, start.hparams["kind"].string_value) == (True, "mlp")
    experiment = metadata.parse_experiment_plugin_data(found[metadata.EXPERIMENT_TAG][1].metadata.plugin_data.content)
    assert [m.name.tag for m in experiment.metric_infos] == ["accuracy"]
    assert (found["accuracy"][0], found["accuracy"][1].simple_value) == (7, 0.5)
    assert metadata.SESSION_END_INFO_TAG in found


def test_embeddings_lie_beside_the_events(tmp_path: Path) -> None:
    from google.protobuf import text_format

    from ferro.utils.tensorboard import SummaryWriter

    ProjectorConfig: Any = importlib.import_module("tensorboard.plugins.projector.projector_config_pb2").ProjectorConfig
    points = ferro.tensor([[1.0, 2.5], [3.0, 4.0]])
    with SummaryWriter(tmp_path) as w:
        w.add_embedding(points, metadata=["a", "b"], global_step=2, tag="words/all")
        w.add_embedding(points, metadata=[("a", 1), ("b", 2)], metadata_header=["name", "count"])
        wrong: Any
        for wrong in ({"mat": points[0]}, {"mat": points, "metadata": ["a"]}):
            with pytest.raises(ValueError, match=r"mat should be 2D|#labels should equal"):
                w.add_embedding(**wrong)
        with pytest.raises(NotImplementedError, match="label_img"):
            w.add_embedding(points, label_img=points)
    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text("utf-8"), ProjectorConfig())
    first, second = config.embeddings
    assert np.loadtxt(tmp_path / first.tensor_path).tolist() == points.tolist()
    assert (tmp_path / first.metadata_path).read_text("utf-8") == "a\nb\n"
    assert (tmp_path / second.metadata_path).read_text("utf-8") == "name\tcount\na\t1\nb\t2\n"


def test_figures_are_drawn_and_closed(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from ferro.utils.tensorboard import SummaryWriter

    drawn = pyplot.figure(figsize=(2, 1), dpi=50)
    with SummaryWriter(tmp_path) as w:
        w.add_figure("f", drawn, 1)
    image = events(tmp_path)[0].summary.value[0].image
    assert (image.height, image.width, image.colorspace) == (50, 100, 4)
    assert not pyplot.fignum_exists(drawn.number)


REFUSED: dict[str, tuple[Callable[[Any], None], type[Exception], str]] = {
    "graph": (lambda w: w.add_graph(ferro.nn.Linear(2, 1), ferro.ones(2)), NotImplementedError, "debug.graph"),
    "scalar": (lambda w: w.add_scalar("a", ferro.ones(2)), ValueError, r"one number is needed, got 2 of shape \[2\]"),
    "no values": (lambda w: w.add_histogram("a", ferro.ones(0)), ValueError, "The input has no element."),
    "nan": (
        lambda w: w.add_histogram("a", ferro.tensor([1.0, float("nan")])),
        ValueError,
        "1 of 2 values are nan or inf",
    ),
    "dimensions": (
        lambda w: w.add_image("a", ferro.ones(3, 3)),
        ValueError,
        "size of input tensor and input format are different",
    ),
    "letters": (lambda w: w.add_image("a", ferro.ones(3, 3), dataformats="XY"), ValueError, "dataformats 'XY'"),
    "channels": (lambda w: w.add_image("a", ferro.ones(2, 3, 3)), ValueError, "1, 3 or 4 channels, got 2"),
    "hparams": (lambda w: w.add_hparams([1], {}), TypeError, "should be dictionary"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_and_nothing_is_written(tmp_path: Path, case: str) -> None:
    from ferro.utils.tensorboard import SummaryWriter

    run, kind, words = REFUSED[case]
    with SummaryWriter(tmp_path) as w, pytest.raises(kind, match=words):
        run(w)
    assert events(tmp_path) == []


def test_the_folder_the_files_and_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ferro.utils.tensorboard import SummaryWriter

    monkeypatch.chdir(tmp_path)
    w = SummaryWriter(comment="_lr1", filename_suffix=".x")
    w.add_scalar("a", 1.0, 0)
    w.flush()
    assert Path(w.get_logdir()).parent.name == "runs"
    assert w.get_logdir().endswith("_lr1")
    assert [e.step for e in events(Path(w.get_logdir()))] == [0]
    w.close()
    assert [p.suffix for p in Path(w.get_logdir()).iterdir()] == [".x"]
    with SummaryWriter(tmp_path / "again", purge_step=4):
        pass
    assert [(e.step, e.session_log.status) for e in events(tmp_path / "again")] == [(4, 1)]


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ferro.utils.tensorboard import SummaryWriter

    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(ImportError, match=r"pip install 'ferro\[tensorboard\]'"):
        SummaryWriter(tmp_path)
