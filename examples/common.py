"""What the examples share: the command line and where pictures go."""

from __future__ import annotations

import argparse
from pathlib import Path

import numbagrad as ng

OUT = Path(__file__).parent / "out"


def arguments(doc: str, **options: dict) -> argparse.Namespace:
    """--device, --quick and the example's own options, each given as `name=dict(default=..., help=...)`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--device", default="cpu", help="where the arrays are")
    parser.add_argument("--quick", action="store_true", help="fewer steps, no pictures: a test that all works")
    for name, option in options.items():
        default = option["default"]
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), **option)
    chosen = parser.parse_args()
    if chosen.device not in ng.devices():
        parser.error(f"--device: no such device: got {chosen.device}; needed one of {', '.join(ng.devices())}")
    return chosen


def save(figure, name: str) -> None:
    """Write a figure to examples/out and say so."""
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / name, dpi=110, bbox_inches="tight")
    print(f"wrote {OUT / name}")
