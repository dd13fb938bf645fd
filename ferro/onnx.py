"""torch.onnx: what programs ask of it while they run; models are not exported."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro import absent as _absent

__all__ = ["export", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never.

    >>> import ferro
    >>> ferro.onnx.is_in_onnx_export()
    False
    """
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: there is no graph of operations to write."""
    raise NotImplementedError(
        "torch.onnx.export is not in ferro: models are not exported. Instead: save(model.state_dict(), file) here, load it "
        "into the same class under PyTorch, and export it there (docs/names.md)"
    )


_absent.explain(__name__)
