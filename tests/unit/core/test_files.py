"""The one atomic write: whole or not at all, under names nobody shares, with the modes that were there."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replaystats._core.files import lock_file, replacing, write_bytes, write_text
from support.trees import nodes

SOURCES = Path(__file__).parents[3] / "src"
posix = pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")


def test_the_new_file_is_there_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "häuser")
    write_bytes(tmp_path / "a.txt", b"again")
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"again"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    write_bytes(tmp_path / "a", b"old")

    def write_half():
        with replacing(tmp_path / "a") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_what_a_killed_program_left_is_removed_and_what_another_one_writes_is_not(tmp_path):
    left, held, other = (tmp_path / f".a.{c * 16}.part" for c in "0af")
    for path in (left, held, tmp_path / ".b.0000000000000000.part", tmp_path / ".a.part"):
        path.write_bytes(b"half")
        os.utime(path, (0, 0))
    other.write_bytes(b"begun just now")
    descriptor = os.open(held, os.O_RDWR)
    assert lock_file(descriptor)
    write_bytes(tmp_path / "a", b"whole")
    os.close(descriptor)
    assert sorted(os.listdir(tmp_path)) == [held.name, other.name, ".a.part", ".b.0000000000000000.part", "a"]


@posix
class TestModesAndLinks:
    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
    def test_modes_are_kept(self, tmp_path, mode):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        path.chmod(mode)
        write_bytes(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == mode

    def test_a_new_file_has_the_usual_mode(self, tmp_path):
        (tmp_path / "plain").write_bytes(b"")
        write_bytes(tmp_path / "ours", b"")
        assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_a_link_is_replaced_and_not_followed(self, tmp_path):
        (tmp_path / "precious").write_bytes(b"precious")
        (tmp_path / "a").symlink_to(tmp_path / "precious")
        write_bytes(tmp_path / "a", b"new")
        assert (tmp_path / "precious").read_bytes() == b"precious"
        assert not (tmp_path / "a").is_symlink()

    def test_a_link_at_the_partial_name_is_not_followed(self, tmp_path, monkeypatch):
        monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
        (tmp_path / "precious").write_bytes(b"precious")
        (tmp_path / ".a.guessed.part").symlink_to(tmp_path / "precious")
        with pytest.raises(FileExistsError):
            write_bytes(tmp_path / "a", b"new")
        assert (tmp_path / "precious").read_bytes() == b"precious"

    def test_a_folder_that_cannot_be_written_to_says_so(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            write_bytes(tmp_path / "none" / "a", b"")
        with pytest.raises(IsADirectoryError):
            write_bytes(tmp_path, b"")
        assert os.listdir(tmp_path) == []


def test_two_writers_do_not_mix(tmp_path):
    code = (
        "import sys; from replaystats._core.files import write_bytes\n"
        "for _ in range(50): write_bytes(sys.argv[1], sys.argv[2].encode() * 100_000)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    workers = [subprocess.Popen([*command, letter]) for letter in "xy"]
    while any(worker.poll() is None for worker in workers):
        if (tmp_path / "a").exists():
            assert (tmp_path / "a").read_bytes() in (b"x" * 100_000, b"y" * 100_000)
    assert [worker.returncode for worker in workers] == [0, 0]
    assert os.listdir(tmp_path) == ["a"]


@posix
def test_killed_in_the_middle_the_old_file_stays(tmp_path):
    write_bytes(tmp_path / "a", b"old" * 1000)
    code = (
        "from replaystats._core.files import replacing\n"
        f"with replacing({str(tmp_path / 'a')!r}) as file:\n"
        "    print('open', flush=True)\n"
        "    while True: file.write(b'new' * 1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as worker:
        worker.stdout.readline()
        time.sleep(0.05)
        worker.kill()
    assert (tmp_path / "a").read_bytes() == b"old" * 1000


def test_no_other_module_renames_files():
    """One concept, one place: `os.replace` and `Path.replace` of a partial file stand in files.py alone."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.name == "files.py":
            continue
        for node in nodes(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
                assert not (is_os and node.func.attr in ("replace", "rename")), path
                one_argument = node.func.attr in ("replace", "rename") and len(node.args) == 1
                assert not (one_argument and not node.keywords), path


def test_a_file_is_locked_once(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    first, second = (os.open(tmp_path / "a", os.O_RDWR) for _ in range(2))
    try:
        assert lock_file(first)
        assert not lock_file(second)
        assert os.read(second, 7) == b"content"  # others may read what is there
        os.close(first)
        assert lock_file(second)
    finally:
        os.close(second)


@posix
def test_devices_and_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for target in (tmp_path / "pipe", tmp_path / "link", "/dev/full", "/dev/stdout"):
        with pytest.raises(OSError, match="a device or a pipe, which no file can replace"):
            write_bytes(target, b"content")
    assert (tmp_path / "link").is_symlink()
