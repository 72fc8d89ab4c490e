"""The report as one HTML page: a picture of rates and faults over time, the anomalies, the faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from headrace.testing.chaos.fault_steps import Step

if TYPE_CHECKING:
    from headrace.testing.chaos.report import Report

_WIDTH: Final = 960
_LEFT: Final = 60
_PLOT_HEIGHT: Final = 220
_ROW: Final = 18
_BINS: Final = 120
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #6a737d; --line: #d0d7de; --in: #0969da; --out: #1a7f37;
  --fault: #cf222e; --page: #ffffff }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --line: #3d444d; --in: #58a6ff;
  --out: #3fb950; --fault: #ff7b72; --page: #0d1117 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--soft) }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } td, th { text-align: left; padding: .2rem 1rem .2rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top } td.n { text-align: right }
.bad { color: var(--fault) } .good { color: var(--out) } pre { overflow-x: auto }
"""


def page(report: Report) -> str:
    from headrace.testing.chaos.report import WORDS

    verdict = (
        '<span class="good">no anomalies</span>' if report.is_clean else '<span class="bad">anomalies found</span>'
    )
    p50, p99 = report.latency_s(0.5), report.latency_s(0.99)
    facts = [
        ("application", " ".join(report.plan.application)),
        ("guarantee", report.plan.guarantee),
        ("written", len(report.acked_at)),
        ("seen in the output" if report.plan.output else "seen", len(report.seen_at)),
        ("starts of the application", report.starts),
        ("ends that were no fault of the plan", report.crashes),
        ("longest silence", f"{report.longest_silence_s():.2f} s"),
        ("time to the output, half / 99 %", "–" if p50 is None or p99 is None else f"{p50:.3f} s / {p99:.3f} s"),
        ("seed", report.plan.seed),
    ]
    found = [
        (count, WORDS[name], "" if name in report.counts else "allowed by the plan")
        for name, count in report.allowed.items()
    ]
    steps = [
        (f"{one.began_s:.2f} s", f"{one.ended_s - one.began_s:.2f} s", one.label, one.note) for one in report.steps
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Chaos report</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>Chaos report: {verdict}</h1>{_picture(report)}{_table((), facts)}"
        f"<h2>Anomalies</h2>{_table(('records', 'what', ''), found) if found else '<p>None.</p>'}"
        f"<h2>Faults</h2>{_table(('at', 'for', 'what', ''), steps) if steps else '<p>None.</p>'}"
        f"<h2>Result</h2><pre>{escape(str(report))}</pre></html>\n"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    top = f"<tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>" if head else ""
    lines = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{top}{''.join(lines)}</table>"


def _picture(report: Report) -> str:
    """Two lines over time, the records that were written and those of the application; the faults are bars below."""
    end = max([report.plan.duration_s, *report.acked_at.values(), *report.seen_at.values()], default=1.0)
    written, seen = _rates(report.acked_at.values(), end), _rates(report.seen_at.values(), end)
    top = max([*written, *seen, 1.0])
    rows = _rows(report.steps)
    height = _PLOT_HEIGHT + 40 + _ROW * len(rows)
    spans, bars = [], []
    for at, row in enumerate(rows):
        for step in row:
            x, width = _x(step.began_s, end), max(3.0, _x(step.ended_s, end) - _x(step.began_s, end))
            y = _PLOT_HEIGHT + 30 + _ROW * at
            title = f"<title>{escape(step.label)} {step.began_s:.2f} s to {step.ended_s:.2f} s</title>"
            spans.append(
                f'<rect x="{x:.1f}" y="10" width="{width:.1f}" height="{_PLOT_HEIGHT - 10}" fill="var(--fault)" '
                f'opacity="0.12">{title}</rect>'
            )
            bars.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 6}" rx="2" fill="var(--fault)">'
                f"{title}</rect>"
            )
            bars.append(f'<text x="{x + width + 4:.1f}" y="{y + 10}">{escape(step.label)}</text>')
    axis = "".join(
        f'<text x="{_x(second, end):.1f}" y="{_PLOT_HEIGHT + 16}" text-anchor="middle">{second:g} s</text>'
        for second in _ticks(end)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Records a second over time, with the faults">'
        f"{''.join(spans)}"
        f'<line x1="{_LEFT}" y1="{_PLOT_HEIGHT}" x2="{_WIDTH - 10}" y2="{_PLOT_HEIGHT}" stroke="var(--line)"/>'
        f'<text x="{_LEFT - 6}" y="20" text-anchor="end">{top:.0f}/s</text>'
        f'<text x="{_LEFT - 6}" y="{_PLOT_HEIGHT}" text-anchor="end">0</text>{axis}'
        f"{_line(written, top, 'var(--in)')}{_line(seen, top, 'var(--out)')}"
        f'<text x="{_LEFT + 8}" y="22" style="fill:var(--in)">written</text>'
        f'<text x="{_LEFT + 70}" y="22" style="fill:var(--out)">{"output" if report.plan.output else "seen"}</text>'
        f"{''.join(bars)}</svg>"
    )


def _x(second: float, end: float) -> float:
    return _LEFT + second / end * (_WIDTH - _LEFT - 10)


def _rates(times: Iterable[float], end: float) -> list[float]:
    """Records a second, in equal parts of the run."""
    counts = [0] * _BINS
    for at in times:
        counts[max(0, min(_BINS - 1, int(at / end * _BINS)))] += 1
    return [count * _BINS / end for count in counts]


def _line(rates: Sequence[float], top: float, colour: str) -> str:
    width = (_WIDTH - _LEFT - 10) / _BINS
    points = " ".join(
        f"{_LEFT + (at + 0.5) * width:.1f},{_PLOT_HEIGHT - rate / top * (_PLOT_HEIGHT - 30):.1f}"
        for at, rate in enumerate(rates)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _ticks(end: float) -> list[float]:
    step = next((one for one in (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if end / one <= 12), 3600)
    return [number * step for number in range(int(end / step) + 1)]


def _rows(steps: Sequence[Step]) -> list[list[Step]]:
    """Faults of one label share a row."""
    rows: dict[str, list[Step]] = {}
    for step in steps:
        rows.setdefault(step.label, []).append(step)
    return list(rows.values())
