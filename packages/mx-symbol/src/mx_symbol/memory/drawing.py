# SPDX-License-Identifier: Apache-2.0
"""A memory plan as a picture: steps run to the right, the arena goes up, a rectangle is a value's life."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from mx_symbol.memory.plan import MemoryPlan, Placement, readable

WIDTH, HEIGHT = 960, 480
MARGIN = 84


def svg(plan: MemoryPlan) -> str:
    """The arena of a plan as an SVG document.

    Values that share memory in place have one colour. Pointing at a rectangle shows name, bytes and
    steps. Values that lie in gradients' arrays are not in the arena and not drawn. An arc below the picture
    joins two steps of which the later one waits for the other's memory.
    """
    places = [p for p in plan.placements.values() if p.host < 0 and p.size > 0]
    n_steps = 1 + max((p.death for p in places), default=0)
    x, y = WIDTH / n_steps, HEIGHT / max(plan.total_bytes, 1)
    parts = [
        _opening(1),
        f'<rect x="{MARGIN}" y="{MARGIN}" width="{WIDTH}" height="{HEIGHT}" fill="#f6f6f6"/>',
        *(_rectangle(p, plan.names.get(p.value, f"value {p.value}"), x, y) for p in places),
        *_axes(plan, n_steps),
        *(_arc(earlier, later, x) for earlier, later in plan.edges),
    ]
    if plan.n_forward is not None and 0 < plan.n_forward < n_steps:
        parts.append(_border(MARGIN + plan.n_forward * x, "backward"))
    if plan.n_prepared:
        text = f"every time (before: prepared, {readable(plan.kept_bytes)} kept)"
        parts.append(_border(MARGIN + plan.n_prepared * x, text))
    return "\n".join((*parts, "</svg>\n"))


def stacked(plans: Mapping[str, MemoryPlan]) -> str:
    """Several plans, each under its name, as one SVG document."""
    parts = [_opening(len(plans))]
    for i, (name, plan) in enumerate(plans.items()):
        top = i * (HEIGHT + 2 * MARGIN)
        parts.append(f'<g transform="translate(0 {top})"><text x="{MARGIN}" y="24">{escape(name)}</text>')
        parts.append(f"{svg(plan)}</g>")
    return "\n".join((*parts, "</svg>\n"))


def _opening(rows: int) -> str:
    width, height = WIDTH + 2 * MARGIN, rows * (HEIGHT + 2 * MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="17">'
    )


def _rectangle(place: Placement, name: str, x: float, y: float) -> str:
    hue = place.storage * 137 % 360  # neighbours in number differ in colour
    top = MARGIN + HEIGHT - (place.offset + place.size) * y
    width = (place.death - place.birth + 1) * x
    title = escape(f"{name}: {place.size} bytes at {place.offset}, steps {place.birth} to {place.death}")
    return (
        f'<rect x="{MARGIN + place.birth * x:.2f}" y="{top:.2f}" width="{width:.2f}" '
        f'height="{place.size * y:.2f}" fill="hsl({hue} 60% 65%)" stroke="#fff" stroke-width="0.5">'
        f"<title>{title}</title></rect>"
    )


def _border(at: float, text: str) -> str:
    """A line across the arena, and what begins there."""
    return (
        f'<path d="M{at:.1f} {MARGIN}V{MARGIN + HEIGHT}" stroke="#000" stroke-dasharray="4 4"/>'
        f'<text x="{at + 4:.1f}" y="{MARGIN + 20}">{escape(text)}</text>'
    )


def _arc(earlier: int, later: int, x: float) -> str:
    """From the middle of one step to that of another."""
    begin, end, bottom = MARGIN + (earlier + 0.5) * x, MARGIN + (later + 0.5) * x, MARGIN + HEIGHT
    return (
        f'<path d="M{begin:.1f} {bottom}Q{(begin + end) / 2:.1f} {bottom + MARGIN} {end:.1f} {bottom}" '
        f'fill="none" stroke="#c00"><title>step {later} waits for step {earlier}</title></path>'
    )


def _axes(plan: MemoryPlan, n_steps: int) -> Iterable[str]:
    bottom = MARGIN + HEIGHT
    unit, size = ("MiB", 2**20) if plan.total_bytes >= 2**20 else ("KiB", 2**10)
    yield f'<text x="{MARGIN}" y="{MARGIN - 40}" font-size="19">{escape(str(plan).splitlines()[0])}</text>'
    yield f'<text x="{MARGIN + WIDTH}" y="{bottom + 24}" text-anchor="end">step {n_steps - 1}</text>'
    yield f'<text x="{MARGIN}" y="{bottom + 24}">step 0</text>'
    for share in (0.0, 0.5, 1.0):
        at = bottom - share * HEIGHT
        yield f'<text x="{MARGIN - 6}" y="{at + 4:.1f}" text-anchor="end">{share * plan.total_bytes / size:.4g}</text>'
    yield f'<text x="{MARGIN - 6}" y="{MARGIN - 14}" text-anchor="end">{unit}</text>'
