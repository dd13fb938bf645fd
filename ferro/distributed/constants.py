"""How long a process group waits."""

from .group import default_pg_timeout

__all__ = ["default_pg_timeout"]
