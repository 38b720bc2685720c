"""Grouped bar charts as standalone SVG: no library, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PLOT_TOP, PLOT_HEIGHT = 960, 64, 260
LEFT, RIGHT = 44, 16
GROUP_GAP = 26
"""Between two groups of bars."""
LINE_HEIGHT = 24
LABEL_MIN_WIDTH = 22
"""Bars at least this wide have their value above them."""
LEGEND_COLUMNS = 3

_STYLE = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; }
    text { fill: #1f2933; }
    .title { font-size: 16px; font-weight: 600; }
    .small { font-size: 11px; fill: #52606d; }
    .middle { text-anchor: middle; }
    .end { text-anchor: end; }
    .grid { stroke: #cbd2d9; stroke-width: 1; }
    .b0 { fill: #cbd2d9; } .b1 { fill: #9aa5b1; } .b2 { fill: #7b8794; }
    .b3 { fill: #9cc3ea; } .b4 { fill: #3e6fa8; } .b5 { fill: #1d3f66; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb; }
      .small { fill: #9aa5b1; }
      .grid { stroke: #3e4c59; }
      .b0 { fill: #3e4c59; } .b1 { fill: #616e7c; } .b2 { fill: #9aa5b1; }
      .b3 { fill: #2f5d92; } .b4 { fill: #5b97d8; } .b5 { fill: #b3d4f5; }
    }
"""
COLORS = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Some values side by side, under one label. Each is a percentage of its series; None leaves a gap."""

    label: str
    values: tuple[float | None, ...]


def bars(title: str, series: Sequence[str], groups: Sequence[Group]) -> str:
    """A chart of percentages: in every group a bar for each series, in the same order and colour."""
    lines = -(-len(series) // LEGEND_COLUMNS)
    bottom = PLOT_TOP + PLOT_HEIGHT
    height = bottom + 44 + LINE_HEIGHT * lines
    told = "; ".join(
        f"{group.label}: " + ", ".join(f"{n} {v:g}" for n, v in zip(series, group.values, strict=True) if v is not None)
        for group in groups
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-labelledby="title about">',
        f'  <title id="title">{_plain(title)}</title>',
        f'  <desc id="about">{_plain(told)}</desc>',
        f"  <style>{_STYLE}  </style>",
        f'  <text class="title" x="{LEFT}" y="26">{_plain(title)}</text>',
        *_grid(),
        *_groups(groups, len(series)),
        *_legend(series, bottom + 44),
        "</svg>",
    ]
    return "\n".join(parts)


def _grid() -> Iterator[str]:
    for percent in range(0, 101, 20):
        y = _height_at(percent)
        yield f'  <line class="grid" x1="{LEFT}" y1="{y:g}" x2="{WIDTH - RIGHT}" y2="{y:g}"/>'
        yield f'  <text class="small end" x="{LEFT - 8}" y="{y + 4:g}">{percent}</text>'


def _groups(groups: Sequence[Group], series: int) -> Iterator[str]:
    room = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    width = (room - GROUP_GAP) / max(series, 1)
    for place, group in enumerate(groups):
        left = LEFT + room * place + GROUP_GAP / 2
        middle = left + (room - GROUP_GAP) / 2
        yield f'  <text class="middle" x="{middle:.1f}" y="{PLOT_TOP + PLOT_HEIGHT + 22}">{_plain(group.label)}</text>'
        for number, value in enumerate(group.values):
            if value is not None:
                yield from _bar(left + width * number, width, value, number % COLORS)


def _bar(x: float, width: float, value: float, color: int) -> Iterator[str]:
    y = _height_at(value)
    tall = PLOT_TOP + PLOT_HEIGHT - y
    yield f'  <rect class="b{color}" x="{x:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{tall:.1f}" rx="2"/>'
    if width >= LABEL_MIN_WIDTH:
        yield f'  <text class="small middle" x="{x + width / 2 - 1:.1f}" y="{y - 4:.1f}">{value:.0f}</text>'


def _legend(series: Sequence[str], top: int) -> Iterator[str]:
    column = (WIDTH - LEFT - RIGHT) / LEGEND_COLUMNS
    for number, name in enumerate(series):
        x = LEFT + column * (number % LEGEND_COLUMNS)
        y = top + LINE_HEIGHT * (number // LEGEND_COLUMNS)
        yield f'  <rect class="b{number % COLORS}" x="{x:.1f}" y="{y}" width="12" height="12" rx="2"/>'
        yield f'  <text x="{x + 18:.1f}" y="{y + 11}">{_plain(name)}</text>'


def _height_at(percent: float) -> float:
    return PLOT_TOP + PLOT_HEIGHT * (1 - min(max(percent, 0), 100) / 100)


def _plain(text: str) -> str:
    """Escape a text for the picture, so that it stays text whatever it contains."""
    return escape(text, quote=False)
