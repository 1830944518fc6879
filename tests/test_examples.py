"""The examples run to a good end, as users run them."""

import re

import pytest
from processes import ROOT, command

EXAMPLES = {
    "digits_mlp": r"test (?P<accuracy>9[7-9]|100)\.\d\d% of 450 digits",
    "digits_cnn": r"test (?P<accuracy>9[89]|100)\.\d\d% of 450 digits",
    "lynx_hare": r"alpha 0\.5\d+ +published 0\.55",
    "logistic_scipy": r"test (?P<accuracy>9[5-9]|100)\.\d\d% of 143 patients",
}


def test_every_example_is_tested():
    found = {p.stem for p in (ROOT / "examples").glob("*.py")} - {"common"}
    assert found == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path):
    pytest.importorskip("sklearn")
    done = command(f"examples/{name}.py", "--quick", MPLBACKEND="Agg", OPENBLAS_NUM_THREADS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(EXAMPLES[name], done.stdout), done.stdout


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_pictures(name):
    """Drawn after one epoch, too, in which not enough is learned: status 1."""
    pytest.importorskip("sklearn")
    done = command(f"examples/{name}.py", "--epochs", "1", MPLBACKEND="Agg", OPENBLAS_NUM_THREADS=1)
    assert done.returncode == 1 and "the test accuracy is below" in done.stderr, done.stderr
    assert done.stdout.count("wrote ") == 2, done.stdout


def test_an_unknown_device_is_a_clear_error():
    done = command("examples/logistic_scipy.py", "--device", "abacus")
    assert done.returncode == 2
    assert "--device: there is no such device: got 'abacus'; needed \"cpu\"" in done.stderr


def test_on_another_device():
    """The same fit through the CUDA kernels, emulated."""
    pytest.importorskip("sklearn")
    done = command("examples/logistic_scipy.py", "--quick", "--device", "cuda-emulated", OPENBLAS_NUM_THREADS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(EXAMPLES["logistic_scipy"], done.stdout), done.stdout
