"""SummaryWriter: writes what is told of a training into a folder that TensorBoard shows."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from . import values
from .values import array, histogram  # (under these names, since `values` is an argument there)


def _package() -> Any:
    """The parts of the package tensorboard that are used; ImportError that says how to install it."""
    try:
        event, summary, tensor, shape = (
            import_module(f"tensorboard.compat.proto.{n}_pb2") for n in ("event", "summary", "tensor", "tensor_shape")
        )
        text = import_module("tensorboard.plugins.text.metadata")
        hyper, api, data = (
            import_module(f"tensorboard.plugins.hparams.{n}") for n in ("metadata", "api_pb2", "plugin_data_pb2")
        )
        projector = import_module("tensorboard.plugins.projector.projector_config_pb2")
        files = import_module("tensorboard.summary.writer.event_file_writer")
    except ImportError as e:
        raise ImportError(
            f"utils.tensorboard needs the package tensorboard: pip install 'ferro[tensorboard]' ({e})"
        ) from e
    return SimpleNamespace(
        Event=event.Event,
        SessionLog=event.SessionLog,
        Summary=summary.Summary,
        TensorProto=tensor.TensorProto,
        TensorShape=shape.TensorShapeProto,
        Writer=files.EventFileWriter,
        text=text,
        hyper=hyper,
        api=api,
        data=data,
        projector=projector,
    )


class SummaryWriter:
    """Writes events into `log_dir` (``runs/DATE_HOST`` with `comment` behind, unless given); also a context manager.

    Values are tensors, arrays or numbers; `global_step` is the place on the axis; `walltime` the time, in seconds.
    ImportError where the package tensorboard is not installed.  `add_graph` is refused: there is no traced graph.

    Example (`tensorboard --logdir runs` shows it)::

        writer = SummaryWriter()
        for step, loss in enumerate(losses):
            writer.add_scalar("loss/train", loss, step)
        writer.close()
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._tb = _package()
        if not log_dir:
            log_dir = Path("runs", time.strftime("%b%d_%H-%M-%S") + f"_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self._files: dict[str, Any] = {}
        self._projected = self._tb.projector.ProjectorConfig()
        if purge_step is not None:
            # What the process before wrote from this step on is not shown.
            self._put(self._tb.Event(session_log=self._tb.SessionLog(status="START")), purge_step, None)
        self._file(self.log_dir)

    def _file(self, folder: str) -> Any:
        """The event file of a folder, begun when it is first written to."""
        if folder not in self._files:
            self._files[folder] = self._tb.Writer(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        return self._files[folder]

    def _put(self, event: Any, step: Any, walltime: float | None, folder: str | None = None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(values.number("global_step", step))
        self._file(folder or self.log_dir).add_event(event)

    def _summary(self, step: Any, walltime: float | None, folder: str | None = None, **value: Any) -> None:
        """Writes one value, whose tag and kind are given by name."""
        tag = value.pop("tag")
        summary = self._tb.Summary(value=[self._tb.Summary.Value(tag=tag, **value)])
        self._put(self._tb.Event(summary=summary), step, walltime, folder)

    # ---------------------------------------------------------------- numbers

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number; ValueError for several. `new_style` writes it as a tensor, in float64 with `double_precision`."""
        number = values.number("add_scalar", scalar_value)
        if not new_style:
            self._summary(global_step, walltime, tag=tag, simple_value=number)
            return
        tensor = (
            self._tb.TensorProto(dtype="DT_DOUBLE", double_val=[number])
            if double_precision
            else self._tb.TensorProto(dtype="DT_FLOAT", float_val=[number])
        )
        metadata = {"plugin_data": {"plugin_name": "scalars"}, "data_class": 1}
        self._summary(global_step, walltime, tag=tag, tensor=tensor, metadata=metadata)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Several numbers that are drawn together: each in a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = str(Path(self.log_dir, f"{main_tag}_{tag}".replace("/", "_")))
            number = values.number("add_scalars", value)
            self._summary(global_step, walltime, folder, tag=main_tag, simple_value=number)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How often values are how large. ValueError for none, or for nan and inf among them."""
        self._summary(global_step, walltime, tag=tag, histo=histogram(array(values), bins, max_bins))

    # ---------------------------------------------------------------- pictures and texts

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: floats between 0 and 1, or bytes. `dataformats` says what the dimensions are: "CHW", "HWC", "HW", ..."""
        self._picture("add_image", tag, img_tensor, global_step, walltime, dataformats)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several pictures, as one, up to eight side by side."""
        self._picture("add_images", tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A figure of matplotlib, or a list of figures of one size; they are closed afterwards unless `close` is False."""
        self._picture("add_figure", tag, values.figure(figure, close), global_step, walltime, "NHWC")

    def _picture(self, name: str, tag: str, pixels: Any, step: Any, walltime: float | None, dataformats: str) -> None:
        found = values.picture(name, pixels, dataformats)
        height, width, channels = found.shape
        image = {"height": height, "width": width, "colorspace": channels, "encoded_image_string": values.png(found)}
        self._summary(step, walltime, tag=tag, image=image)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """A text, in Markdown."""
        shape = self._tb.TensorShape(dim=[self._tb.TensorShape.Dim(size=1)])
        tensor = self._tb.TensorProto(dtype="DT_STRING", string_val=[str(text_string).encode()], tensor_shape=shape)
        metadata = self._tb.text.create_summary_metadata(display_name="", description="")
        self._summary(global_step, walltime, tag=f"{tag}/text_summary", tensor=tensor, metadata=metadata)

    # ---------------------------------------------------------------- hyper-parameters and embeddings

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Hyper-parameters of a run and what it reached, as one row of the table; in a folder of its own."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        chosen = {}
        for name, value in hparam_dict.items():
            given = value if isinstance(value, (bool, str)) else values.number(f"add_hparams: {name}", value)
            chosen[name] = int(value) if isinstance(value, int) and not isinstance(value, bool) else given
        reached = {name: values.number(f"add_hparams: {name}", value) for name, value in metric_dict.items()}
        api, data, folder = self._tb.api, self._tb.data, str(Path(self.log_dir, run_name or str(time.time())))
        infos = [api.HParamInfo(name=n, type=_KINDS[type(v)]) for n, v in chosen.items()]
        metrics = [api.MetricInfo(name=api.MetricName(tag=n)) for n in reached]
        start = data.SessionStartInfo()
        for name, value in chosen.items():
            kind = (
                "bool_value"
                if isinstance(value, bool)
                else "string_value"
                if isinstance(value, str)
                else "number_value"
            )
            setattr(start.hparams[name], kind, value)
        end = data.SessionEndInfo(status="STATUS_SUCCESS")
        hyper = self._tb.hyper
        for tag, content in (
            (hyper.EXPERIMENT_TAG, {"experiment": api.Experiment(hparam_infos=infos, metric_infos=metrics)}),
            (hyper.SESSION_START_INFO_TAG, {"session_start_info": start}),
            (hyper.SESSION_END_INFO_TAG, {"session_end_info": end}),
        ):
            metadata = hyper.create_summary_metadata(data.HParamsPluginData(**content))
            self._summary(None, None, folder, tag=tag, metadata=metadata, tensor=hyper.NULL_TENSOR)
        for name, value in reached.items():
            self._summary(global_step, None, folder, tag=name, simple_value=value)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Points, (N, D), for the projector, with a label each, or several named by `metadata_header`."""
        points = values.array(mat)
        if points.ndim != 2:
            raise ValueError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(points):
            raise ValueError("#labels should equal with #data points")
        if label_img is not None:
            raise NotImplementedError(
                "SummaryWriter.add_embedding: pictures of points are not there; leave label_img out"
            )
        step = 0 if global_step is None else int(values.number("global_step", global_step))
        # (a tag is the name of a folder: what may not be in one is written as its number)
        name = f"{step:05d}/" + "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):02x}" for c in tag)
        folder = Path(self.log_dir, name)
        folder.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / "tensors.tsv", points, fmt="%.8g", delimiter="\t")
        found = self._tb.projector.EmbeddingInfo(tensor_name=f"{tag}:{step:05d}", tensor_path=f"{name}/tensors.tsv")
        if metadata is not None:
            rows = metadata if metadata_header is None else [metadata_header, *metadata]
            lines = ["\t".join(map(str, r)) if isinstance(r, (list, tuple)) else str(r) for r in rows]
            (folder / "metadata.tsv").write_text("".join(line + "\n" for line in lines), "utf-8")
            found.metadata_path = f"{name}/metadata.tsv"
        self._projected.embeddings.append(found)
        Path(self.log_dir, "projector_config.pbtxt").write_text(str(self._projected), "utf-8")

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> NoReturn:
        """NotImplementedError: modules are not traced. `ferro.debug.graph` draws what a result was computed by."""
        raise NotImplementedError(
            "SummaryWriter.add_graph: ferro traces no modules; debug.graph(model(x)) draws what a result was computed "
            "by, and add_image or add_figure shows a picture of it"
        )

    # ---------------------------------------------------------------- the files

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def flush(self) -> None:
        """Writes what is waiting."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Writes what is waiting and closes the files; what is added later begins new ones."""
        for file in self._files.values():
            file.flush()
            file.close()
        self._files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_KINDS: Any = {bool: "DATA_TYPE_BOOL", str: "DATA_TYPE_STRING", int: "DATA_TYPE_FLOAT64", float: "DATA_TYPE_FLOAT64"}
