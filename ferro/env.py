"""``python -m ferro.env``: prints what runs how on this machine, and why; for reports of bugs."""

from __future__ import annotations

from ferro.__config__ import show_config

if __name__ == "__main__":
    show_config()
