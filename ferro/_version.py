"""The version of ferro, in the one place everything reads it from."""

__version__ = "0.1.0"
