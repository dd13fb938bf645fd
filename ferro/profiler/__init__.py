"""The profiler under PyTorch's newer name: `profile` with a schedule of steps, and what goes with it."""

from ferro.autograd.profiler import record_function

from .steps import ProfilerAction, ProfilerActivity, profile, schedule, supported_activities, tensorboard_trace_handler

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]  # fmt: skip
