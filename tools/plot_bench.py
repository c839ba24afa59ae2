#!/usr/bin/env python3
"""Plots `mxgemm bench --json` as SVG: microseconds over M, and the share of the roof.

    mxgemm bench 1,4096,4096 --m 1,4,16,64,256 --threads 1 --against onednn --json > bench.json
    tools/plot_bench.py bench.json -o bench.svg
"""
import argparse
import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

COLORS = ["#2a6fdb", "#d1495b", "#1b9e77", "#8e5bd0", "#c98a00", "#3b8ea5"]
INK, MUTED, GRID, ROOF = "#1f2328", "#656d76", "#d8dee4", "#1f2328"
WIDTH, HEIGHT, TOP, BOTTOM = 980, 440, 96, 52
PANELS = [(72, 400), (560, 400)]  # left edge and width


def fail(text):
    sys.exit(f"plot_bench.py: {text}")


class Series:
    def __init__(self, name, color, dashed=False):
        self.name, self.color, self.dashed, self.us, self.share = name, color, dashed, {}, {}


def choose(shapes, n, k, threads):
    """The shapes that differ in M alone; what is not asked for follows the most frequent."""
    groups = {}
    for shape in shapes:
        key = shape["n"], shape["k"], shape["threads"], shape["scales"]
        if n in (None, key[0]) and k in (None, key[1]) and threads in (None, key[2]):
            groups.setdefault(key, {})[shape["m"]] = shape
    if not groups:
        fail("no shape has the n, k and threads asked for")
    key, group = max(groups.items(), key=lambda item: len(item[1]))
    if len(group) < 2:
        fail("a curve needs the same n and k at two values of M: mxgemm bench 1,N,K --m 1,16 --json")
    return key, [group[m] for m in sorted(group)]


def collect(group, kind):
    """Series by name, and the two roofs, as {m: value}."""
    series, read, compute = {}, {}, {}
    for shape in group:
        m = shape["m"]
        read[m] = shape[f"floor_{kind}_us"]
        if shape["compute_us"] > 0:
            compute[m] = shape["compute_us"]
        rows = [(row["kernel"], False, row) for row in shape["kernels"]]
        rows += [(row["baseline"], True, row) for row in shape["baselines"]]
        for name, is_baseline, row in rows:
            if kind not in row:
                continue  # skipped, or wrong
            if name not in series:
                series[name] = Series(name, COLORS[len(series) % len(COLORS)], is_baseline)
            series[name].us[m] = row[kind]["median_us"]
            if not is_baseline:  # the roof is MXFP4's: others read more bytes
                series[name].share[m] = row[kind]["share_of_roof"]
    if not series:
        fail("nothing was measured")
    return list(series.values()), read, compute


class Panel:
    """Maps data to one of the two fields; x is logarithmic."""

    def __init__(self, index, ms, low, high, logarithmic):
        self.left, self.width = PANELS[index]
        self.ms, self.low, self.high, self.logarithmic = ms, low, high, logarithmic

    def x(self, m):
        first, last = math.log(self.ms[0]), math.log(self.ms[-1])
        return self.left + self.width * (math.log(m) - first) / (last - first)

    def y(self, value):
        scale = math.log if self.logarithmic else float
        part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def line(self, points, color, dash="", width=2, marks=True):
        at = [(self.x(m), self.y(value)) for m, value in sorted(points.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        yield (f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"'
               + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
        if marks:
            for x, y in at:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'

    def frame(self, title, ticks, label):
        yield text(self.left, TOP - 14, title, INK, weight="600")
        for tick in ticks:
            y = self.y(tick)
            yield (f'<line x1="{self.left}" x2="{self.left + self.width}" y1="{y:.1f}" y2="{y:.1f}"'
                   f' stroke="{GRID}"/>')
            yield text(self.left - 8, y + 4, label(tick), MUTED, anchor="end")
        step = math.ceil(len(self.ms) / 10)  # labels that don't touch
        for m in self.ms[::step]:
            yield text(self.x(m), HEIGHT - BOTTOM + 18, str(m), MUTED, anchor="middle")
        yield text(self.left + self.width / 2, HEIGHT - 12, "M (rows of A)", MUTED, anchor="middle")


def text(x, y, content, color, anchor="start", weight="400", size=12):
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}" font-size="{size}">{escape(content)}</text>')


def legend(entries):
    x = PANELS[0][0]
    for name, color, dash in entries:
        yield (f'<line x1="{x}" x2="{x + 22}" y1="50" y2="50" stroke="{color}" stroke-width="2"'
               + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
        yield text(x + 28, 54, name, INK)
        x += 28 + 7 * len(name) + 26


def plot(document, kind, n, k, threads):
    key, group = choose(document["shapes"], n, k, threads)
    series, read, compute = collect(group, kind)
    ms = [shape["m"] for shape in group]
    values = [us for s in series for us in s.us.values()] + [*read.values(), *compute.values()]
    low, high = (10 ** round_to(math.log10(edge(values)))
                 for edge, round_to in ((min, math.floor), (max, math.ceil)))
    times = Panel(0, ms, low, high, True)
    shares = Panel(1, ms, 0, max(100, *(100 * v for s in series for v in s.share.values())), False)

    entries = [(s.name, s.color, "6 4" if s.dashed else "") for s in series]
    entries.append(("read the weights", ROOF, "2 3"))
    if compute:
        entries.append((document["peak_instruction"] + " peak", ROOF, "9 3 2 3"))
    title = (f"N = {key[0]}, K = {key[1]}, {key[2]} thread{'s' if key[2] > 1 else ''}, "
             f"{kind} weights, {key[3]} activations")
    decades = [10 ** e for e in range(round(math.log10(low)), round(math.log10(high)) + 1)]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="system-ui, sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             text(PANELS[0][0], 26, title, INK, weight="600", size=15), *legend(entries),
             *times.frame("microseconds, lower is better", decades, lambda v: f"{v:,.12g}"),
             *shares.frame("share of the roof, higher is better", range(0, 101, 20),
                           lambda v: f"{v} %")]
    parts += times.line(read, ROOF, "2 3", 1.5, False)
    if compute:
        parts += times.line(compute, ROOF, "9 3 2 3", 1.5, False)
    for s in series:
        parts += times.line(s.us, s.color, "6 4" if s.dashed else "")
        if s.share:
            parts += shares.line({m: 100 * v for m, v in s.share.items()}, s.color)
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("json", type=Path, help="output of mxgemm bench --json")
    parser.add_argument("-o", "--output", type=Path, required=True, help="SVG to write")
    parser.add_argument("--kind", choices=["warm", "cold"], default="warm")
    for name in ("n", "k", "threads"):
        parser.add_argument(f"--{name}", type=int, help="of the shapes to plot, if they differ")
    args = parser.parse_args()
    try:
        document = json.loads(args.json.read_text())
        svg = plot(document, args.kind, args.n, args.k, args.threads)
    except (OSError, ValueError, KeyError, TypeError) as error:
        fail(f"{args.json} is not what mxgemm bench --json prints: {error!r}")
    args.output.write_text(svg)


if __name__ == "__main__":
    main()
