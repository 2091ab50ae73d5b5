"""Draws what edge.py has measured."""

COLOURS = {"local": "#999999", "sort": "#cc8811", "paint": "#cc4411", "peer": "#5599dd", "size": "#1a66cc", "local, decoded": "#bbbbbb", "sort, decoded": "#ddaa44"}
LEFT, TOP, HIGH, BAR, GAP = 50, 60, 240, 26, 30


def panel(out, top, title, groups, unit):
    """Bars on a scale from 0, group by group, each with its value above it."""
    highest = max(value for _, bars in groups for value in bars.values())
    out.append(f'<text x="{LEFT}" y="{top - 30}" font-size="15">{title}</text>')
    at = LEFT
    for name, bars in groups:
        begin = at
        for mode, value in bars.items():
            tall = HIGH * value / highest
            out.append(f'<rect x="{at}" y="{top + HIGH - tall:.1f}" width="{BAR - 3}" height="{tall:.1f}" fill="{COLOURS[mode]}"/>')
            text = f"{value:.0f}" if value >= 100 else f"{value:.1f}"
            out.append(f'<text x="{at + BAR / 2 - 1}" y="{top + HIGH - tall - 4:.1f}" font-size="10" text-anchor="middle">{text}</text>')
            at += BAR
        out.append(f'<line x1="{begin}" y1="{top + HIGH}" x2="{at - 3}" y2="{top + HIGH}" stroke="#333"/>')
        out.append(f'<text x="{(begin + at) / 2:.1f}" y="{top + HIGH + 18}" text-anchor="middle">{name}</text>')
        at += GAP
    out.append(f'<text x="{LEFT - 8}" y="{top + HIGH}" font-size="11" text-anchor="end">{unit}</text>')
    return at


def drawing(sizes, about):
    """All sizes' modes: frames a second, and the client's processor time for a frame."""
    body = []
    rates = [(f"{most:,} points", {mode: cost["frames"] / cost["seconds"] for mode, cost in modes.items()}) for most, modes in sizes.items()]
    costs = [(name, {mode: cost["processor_ms"] for mode, cost in modes.items()}) for (name, _), modes in zip(rates, sizes.values())]
    wide = panel(body, TOP + 20, "Frames a second", rates, "1/s")
    panel(body, TOP + HIGH + 110, "The client's processor time for a frame", costs, "ms")
    at, end = LEFT, TOP + 2 * HIGH + 160
    for mode, colour in COLOURS.items():
        body.append(f'<rect x="{at}" y="{end - 11}" width="12" height="12" fill="{colour}"/><text x="{at + 17}" y="{end}" font-size="12">{mode}</text>')
        at += 40 + 7 * len(mode)
    wide = max(wide, at)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{end + 20}" font-family="sans-serif" font-size="13">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', f'<text x="{LEFT}" y="24" font-size="13">{about}</text>', *body, "</svg>", ""])
