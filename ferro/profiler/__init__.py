"""The profiler under PyTorch's newer name: `profile` with a schedule of steps, and what goes with it."""

from ferro.autograd.profiler import kineto_available, record_function

from .steps import ProfilerAction, ProfilerActivity, profile, schedule, supported_activities, tensorboard_trace_handler

__all__ = ["ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]  # fmt: skip
