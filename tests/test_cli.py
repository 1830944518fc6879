"""`python -m numbagrad`: info, warmup, cache."""

import io
import re

import pytest
from processes import command

from numbagrad import __main__ as cli
from numbagrad import warmup
from numbagrad.scalar import ATOMS


def test_info():
    done = command("-m", "numbagrad", "info")
    assert done.returncode == 0, done.stderr
    rows = dict(re.split(r"\s+", line, maxsplit=1) for line in done.stdout.splitlines())
    assert set(rows) >= {"numbagrad", "numpy", "numba", "llvmlite", "scipy", "python", "devices", "processor"}
    assert "worker threads" in rows["threads"] and "kernels" in rows["cache"] and rows["BLAS"]
    assert rows["devices"] == "cpu"


def test_info_counts_threads(monkeypatch, capsys):
    monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", "3")
    assert cli.main(["info"]) == 0
    assert re.search(r"threads +3: the caller and 2 worker threads", capsys.readouterr().out)


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([])
    assert stopped.value.code == 2 and "command" in capsys.readouterr().err


def test_warmup_compiles_then_finds(tmp_path):
    first = command("-m", "numbagrad", "warmup", "--only", "tanh", NUMBAGRAD_CACHE_DIR=tmp_path)
    assert first.returncode == 0, first.stderr
    compiled, found = map(int, re.findall(r"(\d+) (?:kernels compiled|found)", first.stdout))
    assert compiled > 10
    again = command("-m", "numbagrad", "warmup", "--only", "tanh", NUMBAGRAD_CACHE_DIR=tmp_path)
    assert re.match(r"0 kernels compiled, \d+ found", again.stdout), again.stdout
    assert compiled + found <= int(re.search(r"(\d+) found", again.stdout)[1]) + 3  # tasks may compile one twice


def test_warmup_meets_every_public_float_atom():
    met = {name.removeprefix("atom ") for name, _ in warmup.tasks()}
    public = {
        n for n, a in ATOMS.items() if a.rule in warmup.PUBLIC_RULES and a.source is None and ({"f", "*"} & set(a.code))
    }
    assert public <= met and {"exp", "tanh", "add", "lgamma"} <= public
    assert set(warmup.ARITHMETIC) <= public
    assert {"float32", "float64"} == {dtype for _, dtype in warmup.tasks()}


def test_warmup_goes_on_after_a_failure():
    met = warmup.meet(("atom no_such_atom", "float64"))
    assert met.error.startswith("atom no_such_atom float64: KeyError") and met.compiled == 0


def test_progress_bar_only_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        warmup.show_progress(stream, 5, 10, "tanh", 1.0)
    assert plain.getvalue() == ""
    assert "[###############...............] 5/10" in terminal.getvalue()


def test_cache_counts_and_clears_only_kernels(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBAGRAD_CACHE_DIR", str(tmp_path))
    for name in ("sin_f64_v-0123456789abcdef0123.o", "sin_f64_v-0123456789abcdef0123.py"):
        (tmp_path / name).write_text("x" * 100)
    (tmp_path / "thesis.py").write_text("mine")
    assert cli.main(["cache"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 1 kernels, 0.0 MB\n"
    assert cli.main(["cache", "clear"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.py"]
    assert cli.main(["cache", "show"]) == 0 and "0 kernels" in capsys.readouterr().out


def test_cache_without_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBAGRAD_CACHE_DIR", str(tmp_path / "none"))
    assert cli.main(["cache"]) == 0 and cli.main(["cache", "clear"]) == 0
    assert "0 kernels" in capsys.readouterr().out
