"""The public autograd API."""

from ferro.autograd.backward import backward, grad
from ferro.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
