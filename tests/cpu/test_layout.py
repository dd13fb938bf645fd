"""Machine code knows objects by what was measured: wrong offsets, versions and builds that are not known switch it off."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import tape
from ferro.core.base import TensorBase, Version
from ferro.native import layout, loader
from tests.helpers import run_python

supported = pytest.mark.skipif(not loader.SUPPORTED, reason=f"machine code is off: {loader.REFUSAL}")
ROOT = str(Path(ferro.__file__).parents[1])


# --- objects of Python and NumPy -------------------------------------------------------------------------------------


@supported
def test_what_is_measured_holds_for_other_objects():
    offsets = layout.measured()
    assert layout.wrong(offsets) == []
    assert layout.TABLE.tolist() == [offsets[name] for name in layout.FIELDS]
    assert offsets["tuple.items"] in range(16, 48, 8)


@supported
@pytest.mark.parametrize("field", layout.FIELDS)
def test_a_wrong_offset_is_seen(field):
    offsets = layout.measured()
    for shift in (-16, -8, -4, -1, 1, 4, 8, 16, 24, 1 << 20, 1 << 60, -(1 << 60)):
        assert layout.wrong({**offsets, field: offsets[field] + shift}) == [field] or field == "tuple.items"
        assert field in layout.wrong({**offsets, field: offsets[field] + shift})


PLANT = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.find_spec("ferro")
path = Path(spec.origin).parent / "native" / "layout.py"
spec = importlib.util.spec_from_file_location("ferro.native.layout", path)
layout = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layout)
"""
PROGRAM = """
import ferro
x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
y = (ferro.cat([x * 2, x.t()]) + 1).relu().reshape(-1)[1:].sum() + x.max(1)[0].sum()
y.backward()
print(float(y.detach()), x.grad.tolist())
said = ferro.show_config("dicts")
print(said["machine code"]["tape"])
print(said["switched off"])
"""
ANSWER = "41.0 [[1.0, 4.0], [3.0, 4.0]]"


def answer_of_torch(torch: Any) -> str:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = (torch.cat([x * 2, x.t()]) + 1).relu().reshape(-1)[1:].sum() + x.max(1)[0].sum()
    y.backward()
    return f"{float(y.detach())} {x.grad.tolist()}"


def test_the_program_gives_what_torch_gives(torch):
    assert answer_of_torch(torch) == ANSWER


@supported
@pytest.mark.parametrize("field", layout.FIELDS)
def test_a_process_with_a_wrong_offset_runs_without_machine_code(field):
    plant = f"""
measured = layout.measured
layout.measured = lambda: {{**measured(), {field!r}: measured()[{field!r}] + 8}}
"""
    answer, tape_is, why = run_python(PLANT + plant + PROGRAM, FERRO_KERNELS="").splitlines()
    assert answer == ANSWER
    assert tape_is.startswith("off: ")
    assert field in why


@supported
def test_a_field_that_is_found_nowhere_or_twice_switches_machine_code_off():
    with pytest.raises(layout.LayoutError, match=r"Some\.slot: 0 places"):
        layout.only_place("Some.slot", [])
    with pytest.raises(layout.LayoutError, match=r"Some\.slot: 2 places .* \[8, 16\]"):
        layout.only_place("Some.slot", [8, 16])
    plant = """
layout._objects = lambda turn, objects=layout._objects: {**objects(turn), "list.size": [([1], 7)]}
"""
    answer, tape_is, why = run_python(PLANT + plant + PROGRAM, FERRO_KERNELS="").splitlines()
    assert answer == ANSWER
    assert tape_is.startswith("off: ")
    assert "list.size: 0 places" in why


def test_memory_that_is_not_there_is_not_read():
    with layout.reader() as read:
        value = ctypes.c_int64(-5)
        assert read(ctypes.addressof(value), 8) == (-5).to_bytes(8, sys.byteorder, signed=True)
        for address in (0, 8, 1 << 46, (1 << 63) - 8, -8):
            assert read(address, 8) == b""


# --- versions and builds ---------------------------------------------------------------------------------------------


class VersionInfo(tuple):
    __slots__ = ()
    releaselevel = "final"


@supported
@pytest.mark.parametrize(
    ("owner", "name", "value", "why"),
    [
        (sys, "version_info", VersionInfo((3, 10, 0)), "Python .* is not one of those"),
        (sys, "version_info", VersionInfo((3, 99, 0)), "Python .* is not one of those"),
        (sys, "abiflags", "t", "without the interpreter's lock or for debugging"),
        (sys, "abiflags", "d", "without the interpreter's lock or for debugging"),
        (np, "__version__", "1.26.4", "NumPy 1.26.4 is not one of those"),
        (np, "__version__", "2.99.0.dev0", "NumPy 2.99.0.dev0 is not one of those"),
        (layout, "_NUMPY_ABI", 0x3000000, "NumPy's interface in C has version 0x2000000, not 0x3000000"),
    ],
)
def test_what_is_not_known_runs_without_machine_code(monkeypatch, owner, name, value, why):
    assert layout.refusal() == ""
    monkeypatch.setattr(owner, name, value)
    assert re.search(why, layout.refusal())


@supported
def test_machine_code_is_switched_off_by_the_environment():
    answer, tape_is, why = run_python(PROGRAM, FERRO_MACHINE_CODE="off", FERRO_KERNELS="").splitlines()
    assert answer == ANSWER
    assert tape_is == "off: FERRO_MACHINE_CODE switches it off"
    assert "FERRO_MACHINE_CODE" in why


def test_an_unknown_wish_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import ferro"],
        env={**os.environ, "PYTHONPATH": ROOT, "FERRO_MACHINE_CODE": "maybe"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 1
    assert "ValueError: FERRO_MACHINE_CODE is 'maybe'; it may be 'on' or 'off'" in done.stderr


# --- objects of the tape ---------------------------------------------------------------------------------------------


@supported
@pytest.mark.parametrize(("owner", "slot"), [(TensorBase, "_data"), (TensorBase, "_meta"), (Version, "n")])
def test_slots_lie_where_they_are_found(owner, slot):
    some, value = object.__new__(owner), object()
    setattr(some, slot, value)
    with layout.reader() as read:
        found = read(id(some) + tape.offset(owner, slot), 8)
    assert int.from_bytes(found, sys.byteorder) == id(value)


@supported
@pytest.mark.parametrize("shift", [8, -8, 64])
@pytest.mark.parametrize("slot", ["TensorBase._node", "Version.n", "Op.table", "Node.edges", "View.path"])
def test_a_wrong_slot_leaves_the_tape_to_python(slot, shift):
    plant = f"""
only_place = layout.only_place
layout.only_place = lambda name, found: only_place(name, found) + ({shift} if name == {slot!r} else 0)
"""
    answer, tape_is, why = run_python(PLANT + plant + PROGRAM, FERRO_KERNELS="wait").splitlines()
    assert answer == ANSWER
    assert tape_is.startswith("off: ")
    assert f"{slot} lies elsewhere" in why


@pytest.mark.parametrize("mode", ["", "list", None])
def test_show_config_refuses_other_modes(mode):
    with pytest.raises(ValueError, match=r"show_config: mode is .* it may be 'stdout' or 'dicts'"):
        ferro.show_config(mode)


def test_show_config_prints_what_it_returns(capsys):
    assert ferro.show_config() is None
    printed = capsys.readouterr().out
    for section, rows in ferro.show_config("dicts").items():
        assert f"{section}:\n" in printed
        assert all(f"    {name}: {value}\n" in printed for name, value in rows.items())
    assert np.__version__ in printed
    lines = run_python("import runpy; runpy.run_module('ferro.env', run_name='__main__')").splitlines()
    assert "versions:" in lines
