"""Machine code on disk: what it was made for, whose it is, and what happens where the disk does not do as it should."""

import errno
import os
import sys
import time

import numpy as np
import pytest

from ferro.native import disk_cache, fingerprint, notices
from tests.configuration import with_machine_code
from tests.helpers import run_python

posix = pytest.mark.skipif(not disk_cache._POSIX, reason="rights are kept otherwise there")

root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")

SOURCES = ("ferro.cpu.kernels.jit_pointwise",)
CURRENT = frozenset([fingerprint.of_sources(SOURCES)])
OTHER = 12345  # another user


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FERRO_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(notices, "_notices", {})
    return tmp_path / "ferro"


def kept(folder):
    """A file with code in the folder."""
    assert disk_cache.write("cube", "f4-0", SOURCES, b"code")
    (path,) = folder.iterdir()
    return path


def said():
    return " ".join(notices.notices().get("kernel cache", ()))


# --- whose it is -----------------------------------------------------------------------------------------------------


@posix
def test_folders_are_the_users_own(folder):
    before = os.umask(0)
    try:
        path = kept(folder)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o644
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"
    assert not said()


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_code_in_a_folder_that_others_may_write_to_is_ignored(folder, mode):
    path = kept(folder)
    folder.chmod(mode)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    assert disk_cache.listed.__wrapped__() == {}
    assert not disk_cache.writable()
    assert not disk_cache.write("cube", "f4-1", SOURCES, b"code")
    disk_cache.prune(CURRENT)
    assert [*folder.iterdir()] == [path]
    assert str(folder) in said()
    assert "others may write" in said()


@posix
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_code_in_a_file_that_others_may_write_to_is_ignored(folder, mode):
    kept(folder).chmod(mode)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    assert "others may write" in said()


@root
def test_another_users_folder_is_ignored(folder):
    kept(folder)
    os.chown(folder, OTHER, OTHER)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    assert not disk_cache.writable()
    assert f"user {OTHER}" in said()


@root
def test_another_users_file_is_ignored(folder):
    os.chown(kept(folder), OTHER, OTHER)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    assert f"user {OTHER}" in said()


@root
def test_what_the_administrator_has_compiled_is_read_by_all(folder, monkeypatch):
    kept(folder)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"
    os.chown(folder, OTHER + 1, OTHER)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None


@root
def test_nothing_is_left_in_anothers_home(tmp_path, monkeypatch):
    for variable in ("FERRO_CACHE_DIR", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path / "ferro" in [*disk_cache.folders()]
    os.chown(tmp_path, OTHER, OTHER)
    assert tmp_path / "ferro" not in [*disk_cache.folders()]


@posix
def test_links_are_not_followed(folder, tmp_path):
    path = kept(folder)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    path.unlink()
    elsewhere.rename(path)
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    assert not disk_cache.writable()


@posix
def test_what_is_opened_is_what_is_looked_at(folder, monkeypatch):
    """The file is exchanged between the two calls that a check of its name would take."""
    path = kept(folder)
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes().replace(b"code", b"evil"))
    true = os.open

    def opened(*args, **keywords):
        found = true(*args, **keywords)
        if (keywords.get("path") or args[0]) == path.name:
            other.replace(path)
        return found

    monkeypatch.setattr(os, "open", opened)
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"


@posix
@pytest.mark.timeout(60)
def test_a_pipe_in_its_place_is_not_waited_for(folder):
    path = kept(folder)
    path.unlink()
    os.mkfifo(path)
    assert disk_cache.read("cube", "f4-0", SOURCES) is None


# --- what it was made for --------------------------------------------------------------------------------------------


def test_what_was_made_for_something_else_is_refused_whatever_its_name(folder, monkeypatch):
    path = kept(folder)
    good = path.read_bytes()
    for word in (
        sys.version.split()[0],
        np.__version__,
        "release",
        "processor:",
        "sources:",
        "f4-0",
        "cube",
        "cpython",
    ):
        if word.encode() in good:
            path.write_bytes(good.replace(word.encode(), b"0" * len(word), 1))
            assert disk_cache.read("cube", "f4-0", SOURCES) is None, word
    path.write_bytes(good)
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"
    assert "made for something else" in said()


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(sys, "version", sys.version + " changed"),
        lambda patch: patch.setattr(sys, "abiflags", "t", raising=False),
        lambda patch: patch.setattr(sys, "gettotalrefcount", lambda: 0, raising=False),
        lambda patch: patch.setattr(np, "__version__", "2.99"),
        lambda patch: patch.setattr(fingerprint, "_processor", lambda: "processor: another"),
        lambda patch: patch.setattr(fingerprint, "find_spec", lambda package: None),
        lambda patch: patch.setenv("NUMBA_CPU_NAME", "generic"),
    ],
)
def test_whatever_code_depends_on_is_in_its_name(change, monkeypatch):
    before = fingerprint.tools.__wrapped__()
    change(monkeypatch)
    assert fingerprint.tools.__wrapped__() != before


@pytest.mark.parametrize("cut", [0, 10, 300, -5, -1])
def test_damaged_files_are_refused(folder, cut):
    path = kept(folder)
    good = path.read_bytes()
    for bad in (good[:cut], good[:cut] + b"\0" * len(good[cut:]), good + b"\0"):
        path.write_bytes(bad)
        assert (disk_cache.read("cube", "f4-0", SOURCES) in (None, b"cod\0")) or cut == -5


# --- disks that are full, read-only, or gone -------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EACCES])
def test_what_cannot_be_written_is_not_kept(folder, number, monkeypatch):
    kept(folder)

    def refused(*_args, **_keywords):
        raise OSError(number, "refused")

    monkeypatch.setattr(os, "replace" if number == errno.ENOSPC else "open", refused)
    assert not disk_cache.write("cube", "f4-1", SOURCES, b"code")
    monkeypatch.undo()
    assert len(list(folder.iterdir())) == 1  # nothing half written is left


def test_a_folder_that_goes_away_takes_nothing_with_it(folder):
    path = kept(folder)
    path.unlink()
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    folder.rmdir()
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    folder.write_bytes(b"a file in its place")
    assert disk_cache.read("cube", "f4-0", SOURCES) is None
    assert not disk_cache.write("cube", "f4-0", SOURCES, b"code")
    folder.unlink()
    folder.parent.rmdir()
    assert not disk_cache.writable()


# --- old files -------------------------------------------------------------------------------------------------------


OLD = "0123456789abcdef"  # a digest of sources that are no more
ANOTHER = "89abcdef"  # another Python's digest of tools


def put(folder, name, days=0):
    """A file that was last used so many days ago."""
    path = folder / name
    path.write_bytes(b"old")
    os.utime(path, (time.time() - days * 86400,) * 2)
    return path


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def beside(folder, monkeypatch):
    """The same folder, as the one beside the sources."""
    monkeypatch.setattr(disk_cache, "_BESIDE", folder)
    return folder


def of_old_sources():
    return f"{fingerprint.of_tools()}.{OLD}.kernel"


def test_beside_the_sources_old_code_goes_when_the_kernel_is_compiled_again(beside):
    beside.mkdir(mode=0o700)
    stale = put(beside, f"cube-f4-0.{of_old_sources()}")
    former = put(beside, f"cube-f4-0-{OLD}.kernel")  # as former versions named them
    stay = [
        put(beside, f"cube-f4-0.{ANOTHER}.{OLD}.kernel"),
        put(beside, f"cube-f4-1.{of_old_sources()}"),
        put(beside, f"cubes-f4-0.{of_old_sources()}"),
    ]
    assert disk_cache.write("cube", "f4-0", SOURCES, b"code")
    assert not stale.exists()
    assert not former.exists()
    assert all(path.exists() for path in stay)
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"
    disk_cache.prune(CURRENT)  # at the next warm-up the rest goes, but for another Python's
    assert names(beside) == {disk_cache._file("cube", "f4-0", SOURCES), stay[0].name}


def test_code_of_a_kernel_that_is_no_more_goes(beside):
    kept(beside)
    put(beside, f"no_such_kernel-f8-12345678.{of_old_sources()}")
    disk_cache.prune(CURRENT)
    assert names(beside) == {disk_cache._file("cube", "f4-0", SOURCES)}


def test_where_versions_of_ferro_share_a_folder_only_what_nobody_uses_goes(folder):
    kept(folder)
    put(folder, f"cube-f4-0.{of_old_sources()}", disk_cache.UNUSED - 1)
    put(folder, f"cube-f4-0-{OLD}.kernel", disk_cache.UNUSED - 1)
    before = names(folder)
    put(folder, f"cube-f4-0.{ANOTHER}.{OLD}.kernel", disk_cache.UNUSED + 1)
    put(folder, f"cube-f8-0-{OLD}.kernel", disk_cache.UNUSED + 1)
    disk_cache.prune(CURRENT)
    assert names(folder) == before
    disk_cache.write("cube", "f4-0", SOURCES, b"code")
    assert names(folder) == before


def test_code_that_is_current_never_goes(beside):
    path = kept(beside)
    os.utime(path, (0, 0))
    disk_cache.prune(CURRENT)
    assert path.exists()


def test_reading_tells_that_a_file_is_used(folder):
    path = kept(folder)
    os.utime(path, (0, 0))
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"
    used = path.stat().st_mtime
    assert used > time.time() - 86400
    os.utime(path, (used - 3600,) * 2)  # once a day is enough
    assert disk_cache.read("cube", "f4-0", SOURCES) == b"code"
    assert path.stat().st_mtime == used - 3600


def test_the_last_few_of_each_kernel_and_signature_are_kept(folder):
    now = kept(folder)
    for age in range(1, disk_cache.KEPT + 4):
        put(folder, f"cube-f4-0.{ANOTHER}.{age:016x}.kernel", age)
    other = {f"cube-f8-0.{ANOTHER}.{OLD}.kernel", "something else"}
    for name in other:
        put(folder, name)
    disk_cache.prune(CURRENT)
    few = {f"cube-f4-0.{ANOTHER}.{age:016x}.kernel" for age in range(1, disk_cache.KEPT)}
    assert names(folder) == {now.name, *other, *few}


@posix
def test_what_is_being_written_stays_and_what_was_left_goes(folder):
    kept(folder)
    with (folder / "1.part").open("wb") as busy:
        assert disk_cache._locked(busy.fileno())
        (folder / "2.part").write_bytes(b"half")
        disk_cache.prune(CURRENT)
        assert (folder / "1.part").exists()
        assert not (folder / "2.part").exists()
    disk_cache.prune(CURRENT)
    assert not (folder / "1.part").exists()


# --- Numba's own -----------------------------------------------------------------------------------------------------


@posix
def test_numbas_files_are_looked_at_too(tmp_path, monkeypatch):
    monkeypatch.setattr(notices, "_notices", {})
    tmp_path.chmod(0o700)
    index = tmp_path / "jit_pool.max_pool-12.py311.nbi"
    index.write_bytes(b"")
    assert disk_cache.trusted(tmp_path, "jit_pool.max_pool-12.py311")
    index.chmod(0o666)
    assert not disk_cache.trusted(tmp_path, "jit_pool.max_pool-12.py311")
    assert disk_cache.trusted(tmp_path, "jit_pool.avg_pool-12.py311")
    tmp_path.chmod(0o777)
    assert not disk_cache.trusted(tmp_path, "jit_pool.avg_pool-12.py311")
    assert not disk_cache.trusted(tmp_path / "nowhere", "jit_pool")


NUMBA = """
import sys
import numpy as np
from ferro.native import loader
loader.SUPPORTED = False
from ferro.cpu.kernels import jit_special
from ferro.native.notices import notices
x = np.arange(4, dtype=np.float32)
out = np.empty_like(x)
jit_special.nextafter(x, x + 1, out)
print((out == np.nextafter(x, x + 1)).all(), sum(jit_special.nextafter.stats.cache_hits.values()), len(notices().get("kernel cache", ())))
"""


@posix
def test_numbas_damaged_cache_costs_time_only(tmp_path):
    pytest.importorskip("numba")
    settings = {"NUMBA_CACHE_DIR": str(tmp_path), "FERRO_KERNELS": "off", "FERRO_CACHE_DIR": str(tmp_path)}
    before = os.umask(0o077)
    try:
        assert run_python(NUMBA, **settings).split() == ["True", "0", "0"]
        assert run_python(NUMBA, **settings).split() == ["True", "1", "0"]
        files = [*tmp_path.rglob("*.nb?")]
        assert files
        for damage in (b"", b"nonsense"):
            for path in files:
                path.write_bytes(damage)
            right, hits, notes = run_python(NUMBA, **settings).split()
            assert (right, hits) == ("True", "0")
            assert int(notes) > 0
        for path in files:
            path.unlink(missing_ok=True)
        files[0].parent.chmod(0o777)
        assert run_python(NUMBA, **settings).split() == ["True", "0", "1"]
        assert not [*tmp_path.rglob("*.nb?")]
    finally:
        os.umask(before)


@pytest.mark.slow
@with_machine_code
@pytest.mark.timeout(900)
def test_with_an_empty_cache_what_is_waited_for_is_made_at_import(tmp_path):
    program = "import ferro; x = ferro.ones(2, requires_grad=True); x.exp().sum().backward(); print(ferro.show_config('dicts'))"
    found = run_python(program, 800, FERRO_KERNELS="wait", FERRO_TAPE="", FERRO_CACHE_DIR=str(tmp_path))
    assert "'functions of arrays': 'on', 'tape': 'on'" in found
    assert any(tmp_path.iterdir())
