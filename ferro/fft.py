"""ferro.fft: discrete Fourier transforms under PyTorch's names."""

from ferro.ops.fourier import fft, fft2, fftn, ifft, ifft2, ifftn
from ferro.ops.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from ferro.ops.real_fourier import hfft, hfft2, hfftn, ihfft, ihfft2, ihfftn, irfft, irfft2, irfftn, rfft, rfft2, rfftn

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
           "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]  # fmt: skip
