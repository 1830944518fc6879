"""What a fresh process pays: import, the first call with a warm cache, and with a cold one."""

import json
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import json
import numbagrad as ng, numbagrad.numpy as np
from numbagrad.kernels.cpu import compiler
ng.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(10))
print(json.dumps([compiler.compilations, compiler.loads]))
"""


def run(folder):
    """The program in a process of its own; kernels compiled and found."""
    environment = os.environ | {"NUMBAGRAD_CACHE_DIR": folder}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


class Import:
    """`import numbagrad`, and NumPy alone to compare with."""

    def timeraw_import(self):
        return "import numbagrad"

    def timeraw_import_numpy(self):
        return "import numpy"


class FirstCall:
    """A whole process that computes one gradient."""

    params = (["warm", "cold"],)
    param_names = ["cache"]
    number = 1
    repeat = (1, 5, 20.0)
    timeout = 300

    def setup(self, cache):
        self.folder = tempfile.TemporaryDirectory()
        if cache == "warm":
            run(self.folder.name)

    def teardown(self, cache):
        self.folder.cleanup()

    def time_process(self, cache):
        if cache == "cold":
            with tempfile.TemporaryDirectory() as fresh:
                run(fresh)
        else:
            run(self.folder.name)

    def track_compilations(self, cache):
        return run(self.folder.name)[0]

    track_compilations.unit = "kernels"
