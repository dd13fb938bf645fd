"""Hostile use: whatever a program does to ferro, the answer is an ordinary exception or a right number.

Never a signal, a hang, or an error of the interpreter. Each program of cases runs in a process of its own, as it is and
with allocators and a collector that bring mistakes to light. `make hostile` runs the long form.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import limits

ROOT = Path(__file__).resolve().parents[2]
LONG = int(os.environ.get("FERRO_HOSTILE", "0") or 0)  # rounds of the long form
LIMIT = 3600 if LONG else 240

pytestmark = [pytest.mark.first, pytest.mark.timeout(LIMIT + 30)]
# Into how many processes a program is cut, and the settings that it runs in where time is short.
PARTS = {"tampered": 2, "arguments": 2, "failures": 1, "lifetime": 1, "memory": 2, "threads": 1}
SHORT = {
    "tampered": ("debugging allocators",),
    "arguments": ("",),
    "failures": ("",),
    "lifetime": ("debugging allocators",),
    "memory": ("",),
    "threads": ("", "debugging allocators", "collecting"),
}
SETTINGS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "": ({}, ()),
    "filled memory": ({"MALLOC_PERTURB_": "165"}, ()),
    "debugging allocators": ({"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "90"}, ()),
    "collecting": ({}, ("--collect",)),
}


def run(program: str, *options: str, folder: Path, **environment: str) -> None:
    """Run a program of hostile cases, which must find nothing wrong.

    It runs in `folder`: some cases call functions that write files, by names made up on the spot.
    """
    options += ("--long", "--rounds", str(LONG), "--limit", "900") if LONG else ()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.child", program, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        told, _ = process.communicate()
        pytest.fail(f"{program}: no end after {LIMIT} s; the last of what it said:\n{told[-3000:]}", pytrace=False)
    if process.returncode != 0:
        lines = told.splitlines()
        wrong = [k for k, line in enumerate(lines) if line.startswith("wrong ")]
        first = "\n".join(lines[max(0, wrong[0] - 30) : wrong[0] + 2] if wrong else lines[-40:])
        names = "\n".join("\n".join(lines[k : k + 2]) for k in wrong[:40])
        pytest.fail(
            f"{program}: exit code {process.returncode}, {len(wrong)} cases wrong\n{names}\n--- the first:\n{first}",
            pytrace=False,
        )


CASES = [
    (program, f"{k}/{n}", setting)
    for program, n in PARTS.items()
    for k in range(n)
    for setting in SETTINGS
    if LONG or (setting in SHORT.get(program, ()))
]


@pytest.mark.parametrize(("program", "part", "setting"), CASES)
def test_a_hostile_program_gets_exceptions_or_right_numbers(
    program: str, part: str, setting: str, tmp_path: Path
) -> None:
    environment, options = SETTINGS[setting]
    run(program, "--part", part, *options, folder=tmp_path, **environment)


LENGTHY = ("modules loaded again", "one core")


@pytest.mark.parametrize("setting", SETTINGS if LONG else [""])
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] if case in LENGTHY else []) for case in limits.CASES]
)
def test_what_the_machine_refuses_costs_time_alone(case: str, setting: str, tmp_path: Path) -> None:
    environment, options = SETTINGS[setting]
    run("limits", "--only", case, "--limit", "200", *options, folder=tmp_path, **environment)
