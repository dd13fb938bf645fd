"""The public autograd API."""

from ferro.autograd import forward_ad
from ferro.autograd.backward import backward, grad
from ferro.autograd.function import Function, once_differentiable
from ferro.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from ferro.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
