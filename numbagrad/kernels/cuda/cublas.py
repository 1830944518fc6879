from typing import Any

Call = Any
def usable(device): return False
def call(problem, dtype, mask): return None
