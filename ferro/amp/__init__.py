"""Mixed precision: `autocast` chooses the precision of operations, `GradScaler` keeps small gradients from vanishing."""

import sys

from ferro import cpu as _arrays
from ferro.amp import cpu
from ferro.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from ferro.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

# PyTorch has the old names in torch.cpu.amp; ferro.cpu is the backend of arrays, which knows nothing of them.
_arrays.amp = sys.modules["ferro.cpu.amp"] = cpu  # type: ignore[attr-defined]
