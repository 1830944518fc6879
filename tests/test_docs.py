"""Pages that are made from the registry are current, and pages link to pages that exist."""

import re

import pytest
from processes import ROOT, command

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_table_of_operations_is_current():
    done = command("tools/ops_table.py", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    targets = re.findall(r"\]\(([^)#\s]+)", prose)
    local = [t for t in targets if not re.match(r"[a-z]+:", t)]
    assert [t for t in local if not (page.parent / t).exists()] == []
