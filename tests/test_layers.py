"""The shape of the library: imports go downward, files and functions stay small, what is written runs.

Sources are read with ``ast`` and not imported, so that a broken module is reported by name. To move a module
in the ladder, edit the tables below; nothing else knows about them.
"""

import ast
import contextlib
import doctest
import graphlib
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "numbagrad"

# From bottom to top. A module may import its own row and the rows below; the longest matching name counts.
LADDER = [
    ["config", "core", "scalar"],
    ["kernels"],
    ["primitives"],
    ["compile"],
    ["numpy", "lax", "nn", "ops", "random", "optim", "scipy"],
    ["api", "tree_util"],
    ["testing"],
    ["", "__main__"],  # "" is numbagrad/__init__.py, and any module not named here
]

# Less than the ladder allows: all that these may import, at any depth of nesting.
ONLY = {"kernels": ["kernels", "scalar", "core.dtypes", "core.errors", "config"]}

# Not at module level, although lower: kernels are found by the registry, for the device of the operands.
NOT_AT_MODULE_LEVEL = {"primitives": ["kernels"]}

# Modules whose imports inside functions may go anywhere, with the reason.
LAZY = {
    "core.registry": "finds the kernels of a primitive when it is first bound",
    "core.array": "methods and operators of Array are the functions of numbagrad.numpy",
    "core.trace": "methods and operators of a traced value are the functions of numbagrad.numpy",
    "": "public names are imported when they are first used",
    "__main__": "a command imports what it runs",
}

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 50

# `import numbagrad` must not load these: they cost more than all the rest together.
HEAVY = ["numba", "scipy", "matplotlib", "ml_dtypes"]

# A module that needs one of these, and does not find it, is left out of the doctests.
OPTIONAL = ["cuda", "numba_cuda", "nvmath", "sklearn", "matplotlib"]


# ---------------------------------------------------------------------------------------- reading imports


class Import(NamedTuple):
    module: str  # the importing module, without the "numbagrad." in front
    target: str  # the imported one, likewise
    line: int
    lazy: bool  # inside a function


def module_files(root: Path) -> dict[str, Path]:
    """Module name, without the package's, to file; "" is the package itself."""
    files = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root / PACKAGE).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


class ImportReader(ast.NodeVisitor):
    def __init__(self, module: str, path: Path, modules: set[str]) -> None:
        self.module, self.modules, self.lazy = module, modules, False
        parts = [PACKAGE, *filter(None, module.split("."))]
        self.package = parts if path.name == "__init__.py" else parts[:-1]
        self.found: list[Import] = []

    def add(self, name: str, line: int) -> None:
        parts = name.split(".")
        if parts[0] == PACKAGE:
            self.found.append(Import(self.module, ".".join(parts[1:]), line, self.lazy))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: len(self.package) - node.level + 1] if node.level else []
        base = ".".join([*base, *filter(None, [node.module])])
        for alias in node.names:
            full = f"{base}.{alias.name}"
            is_module = full.partition(".")[2] in self.modules
            self.add(full if is_module else base, node.lineno)

    def visit_If(self, node: ast.If) -> None:
        # Imports for type checkers do not happen at run time.
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.AST) -> None:
        outer, self.lazy = self.lazy, True
        self.generic_visit(node)
        self.lazy = outer

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef


def read_imports(root: Path) -> list[Import]:
    files = module_files(root)
    found = []
    for module, path in files.items():
        reader = ImportReader(module, path, set(files))
        reader.visit(ast.parse(path.read_text(), str(path)))
        found += [i for i in reader.found if i.target != i.module]
    return found


def inside(module: str, parent: str) -> bool:
    return module == parent or module.startswith(parent + ".")


def rank(module: str) -> int:
    best, where = -1, next(i for i, row in enumerate(LADDER) if "" in row)
    for i, row in enumerate(LADDER):
        for name in row:
            if name and inside(module, name) and len(name) > best:
                best, where = len(name), i
    return where


def offence(i: Import) -> str | None:
    """Why an import is not allowed, or None."""
    for name, allowed in ONLY.items():
        if inside(i.module, name):
            return None if any(inside(i.target, a) for a in allowed) else f"{name} may import only {allowed}"
    if i.lazy and i.module in LAZY:
        return None
    if not i.lazy:
        for name, banned in NOT_AT_MODULE_LEVEL.items():
            if inside(i.module, name) and any(inside(i.target, b) for b in banned):
                return f"{name} may not import {banned} at module level"
    return None if rank(i.target) <= rank(i.module) else "an import upward"


def offences(root: Path) -> list[str]:
    return [
        f"{PACKAGE}.{i.module} line {i.line} imports {PACKAGE}.{i.target}: {why}"
        for i in read_imports(root)
        if (why := offence(i))
    ]


def cycle(root: Path) -> list[str]:
    """Modules that import each other in a ring at module level, or []."""
    graph: dict[str, set[str]] = {}
    for i in read_imports(root):
        if not i.lazy:
            graph.setdefault(i.module, set()).add(i.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def function_lengths(path: Path) -> list[tuple[str, int]]:
    """Name and lines of each function, decorators and docstrings (inner ones too) not counted."""
    lengths = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scopes = [n for n in ast.walk(node) if hasattr(n, "body") and isinstance(n.body, list)]
            docs = [n.body[0] for n in scopes if _has_docstring(n)]
            lines = node.end_lineno - node.lineno + 1 - sum(d.end_lineno - d.lineno + 1 for d in docs)
            lengths.append((node.name, lines))
    return lengths


def _has_docstring(node: ast.AST) -> bool:
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return isinstance(node, scopes) and ast.get_docstring(node, clean=False) is not None


# ------------------------------------------------------------------------------------------- the structure


def test_imports_go_downward():
    assert offences(ROOT) == []


def test_no_import_cycles():
    assert cycle(ROOT) == []


def test_lazy_modules_have_a_reason():
    assert all(LAZY.values())


@pytest.mark.parametrize("module", module_files(ROOT))
def test_sizes(module):
    path = module_files(ROOT)[module]
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES, "split the file by idea"
    assert [f for f in function_lengths(path) if f[1] > MAX_FUNCTION_LINES] == [], (
        "split the function by idea"
    )


def test_import_is_light():
    code = f"import sys, {PACKAGE}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_each_file_of_cuda_kernels_says_how_it_stands_to_the_checklist():
    files = (ROOT / PACKAGE / "kernels" / "cuda").glob("*.py")
    kernels = [p for p in files if re.search(r"(?<!`)@cuda\.jit", p.read_text())]
    assert len(kernels) > 20
    assert [p.name for p in kernels if "\n# Checklist of docs/design/cuda.md: " not in p.read_text()] == []


# ------------------------------------------------------------- the checks themselves, on a bad package


@pytest.fixture
def bad(tmp_path):
    """A package with one file for each offence."""

    def write(**files):
        for name, text in files.items():
            path = (tmp_path / PACKAGE).joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return tmp_path

    return write


BAD_IMPORTS = [  # importing module, its text, number of offences
    ("core__a", "import numbagrad.numpy", 1),
    ("core__a", "from numbagrad import lax", 1),
    ("core__a", "from .. import lax", 1),
    ("core__a", "from ..lax import b", 1),
    ("core__a", "def f():\n    from numbagrad.lax import b", 1),
    ("core__a", "from numbagrad.scalar import b\nimport numpy, os.path", 0),
    ("core__a", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numbagrad.lax", 0),
    ("core__array", "def f():\n    from numbagrad.lax import b", 0),
    ("core__array", "import numbagrad.lax", 1),
    ("kernels__a", "import numbagrad.core.array", 1),
    ("kernels__a", "def f():\n    import numbagrad.core.array", 1),
    ("kernels__a", "import numbagrad.core.dtypes, numbagrad.kernels.b", 0),
    ("primitives__a", "import numbagrad.kernels", 1),
    ("primitives__a", "def f():\n    import numbagrad.kernels", 0),
    ("nn__a", "import numbagrad", 1),
    ("api__a", "import numbagrad.nn.b", 0),
]


@pytest.mark.parametrize(("module", "text", "count"), BAD_IMPORTS)
def test_ladder_check(bad, module, text, count):
    assert len(offences(bad(**{module: text, "lax": ""}))) == count


def test_cycle_check(bad):
    root = bad(
        core__a="import numbagrad.core.b", core__b="from numbagrad.core import c", core__c="from . import a"
    )
    assert set(cycle(root)) == {"core.a", "core.b", "core.c"}
    assert cycle(bad(core__c="def f():\n    from . import a")) == []


def test_function_length_check(bad):
    doc = '    """One\n\n    two."""\n'
    root = bad(a=f"@decorated\ndef f(x):\n{doc}    def g():\n    {doc}        return 1\n    return g\n")
    assert function_lengths(root / PACKAGE / "a.py") == [("f", 4), ("g", 2)]


# ---------------------------------------------------------------------------------------- docs and doctests

FENCE = re.compile(
    r"^(?P<indent>[ ]*)(?P<fence>`{3,})python[^\n`]*\n(?P<code>.*?)^(?P=indent)(?P=fence)[ ]*$", re.M | re.S
)


def doc_files() -> list[str]:
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(f.relative_to(ROOT)) for f in files if f.exists()]


def doc_blocks(text: str) -> list[tuple[int, str]]:
    """Line number and code of each python block that is to be run."""
    blocks = []
    for match in FENCE.finditer(text):
        code = textwrap.dedent(match["code"])
        line = text.count("\n", 0, match.start("code"))
        if code.startswith("# not run"):
            assert re.match(r"# not run: \S", code), f"line {line + 1}: needed '# not run: reason'"
        else:
            blocks.append((line, code))
    return blocks


@pytest.mark.parametrize("name", doc_files())
def test_docs_run(name, tmp_path, monkeypatch):
    """The blocks of one file share a namespace; a block may be a doctest (>>>)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    space = {"__name__": "__main__"}
    for line, code in doc_blocks((ROOT / name).read_text()):
        if code.startswith(">>>"):
            run_doctests([doctest.DocTestParser().get_doctest(code, space, name, name, line)], space)
        else:  # blank lines in front, and the real file name: tracebacks show the line of the document
            exec(compile("\n" * line + code, str(ROOT / name), "exec"), space)


def test_doc_blocks():
    text = "a\n```python\nx = 1\n```\n- b\n\n  ```python\n  x\n  ```\n"
    text += "```\nno\n```\n```python\n# not run: slow\n```\n"
    assert doc_blocks(text) == [(2, "x = 1\n"), (7, "x\n")]
    with pytest.raises(AssertionError, match="needed '# not run: reason'"):
        doc_blocks("```python\n# not run\n```\n")


FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run_doctests(tests: list[doctest.DocTest], space: dict | None = None) -> int:
    """Run doctests, fail with their output; names go to ``space``. The number of examples."""
    runner, out = doctest.DocTestRunner(optionflags=FLAGS), io.StringIO()
    for test in tests:
        runner.run(test, out=out.write, clear_globs=False)
        if space is not None:
            space.update(test.globs)
    if runner.failures:
        pytest.fail(out.getvalue(), pytrace=False)
    return runner.tries


def module_doctests(module) -> list[doctest.DocTest]:
    """The module's doctests, with those of decorated functions and of objects that have a docstring.

    doctest itself sees plain functions and classes only: it would skip every function wrapped by a decorator
    from another module, and every operation that is an object.
    """
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(module, module.__name__)
    seen = {test.name for test in tests}
    for key, value in vars(module).items():
        name, doc = f"{module.__name__}.{key}", getattr(value, "__doc__", None)
        own = getattr(value, "__module__", None) == module.__name__ and not inspect.isclass(value)
        if own and name not in seen and isinstance(doc, str) and doc != type(value).__doc__ and ">>>" in doc:
            tests.append(
                doctest.DocTestParser().get_doctest(doc, dict(vars(module)), name, module.__file__, 0)
            )
    return tests


@pytest.mark.parametrize("name", module_files(ROOT))
def test_doctests(name):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            module = importlib.import_module(f"{PACKAGE}.{name}".rstrip("."))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"needs {error.name}")
    run_doctests(module_doctests(module))


def test_doctests_of_wrapped_functions_are_found(monkeypatch, tmp_path):
    (tmp_path / "wrapped_sample.py").write_text(
        textwrap.dedent('''
        import contextlib
        class Op:
            def __init__(self, doc): self.__doc__, self.__module__ = doc, __name__
        @contextlib.contextmanager
        def wrapped():
            """
            >>> 1 + 1
            2
            """
        op = Op(""">>> 2 + 2\\n5\\n""")
        ''')
    )
    monkeypatch.syspath_prepend(tmp_path)
    tests = module_doctests(importlib.import_module("wrapped_sample"))
    assert {t.name for t in tests if t.examples} == {"wrapped_sample.wrapped", "wrapped_sample.op"}
    with pytest.raises(pytest.fail.Exception, match="Expected:\n    5"):
        run_doctests(tests)


def test_scripts_are_executable():
    for name in ("scripts/test", "scripts/train", "scripts/venv", ".ci/run"):
        path = ROOT / name
        assert not path.exists() or os.access(path, os.X_OK), name
