"""Writes the tables of docs/internals/performance.md from the JSON files of bench/run.py, one for each instruction set and
number of threads.

python bench/report.py one.json two.json
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rows import GROUPS

LEVELS = {"avx512": "AVX-512", "avx2": "AVX2", "baseline": "SSE2"}
PAGE = Path(__file__).parents[1] / "docs" / "internals" / "performance.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def amount(row: dict[str, Any], engine: str) -> str:
    """What an engine took at least, with its unit."""
    ((key, value),) = [(k, v) for k, v in row[engine].items() if k.startswith("min_")]
    unit = key.removeprefix("min_")
    if unit == "us" and value >= 1000:
        return f"{value / 1000:.3g} ms"
    return f"{value:.3g} {unit}"


def mean(rows: list[dict[str, Any]]) -> str:
    """The geometric mean of the ratios of minima, and that of the medians."""
    both = [[row[key] for row in rows] for key in ("ratio_of_minima", "ratio_of_medians")]
    return " [".join(f"{statistics.geometric_mean(ratios):.2f}" for ratios in both) + "]"


def tables(records: list[dict[str, Any]]) -> str:
    """The machine, a table of the means, and one for each group."""
    machine, versions = records[0]["machine"], records[0]["versions"]
    heads = [
        f"{LEVELS.get(record['machine']['isa'], 'other')}, {n} thread{'s' * (n > 1)}"
        for record in records
        for n in [record["threads"]]
    ]
    where = f"{machine['processor']}, {machine['processors']} processors (virtual, shared), {machine['system']}"
    lines = [
        f"Machine: {where}; Python {machine['python']}, torch {versions['torch']}, ferro {versions['ferro']}.",
        "",
        f"| group | rows | {' | '.join(heads)} |",
        f"|---|---|{'---|' * len(heads)}",
    ]
    groups = [group for group in GROUPS if group in records[0]]
    for group in groups:
        means = [mean(record[group]) if group in record else "" for record in records]
        lines.append(f"| {group} | {len(records[0][group])} | {' | '.join(means)} |")
    whole = [[row for group in groups for row in record.get(group, ())] for record in records]
    lines.append(f"| **all** | {len(whole[0])} | {' | '.join(f'**{mean(rows)}**' for rows in whole)} |")
    above = [sum(row["ratio_of_minima"] > 1 for row in rows) for rows in whole]
    lines.append(f"| rows above 1.0 | | {' | '.join(map(str, above))} |")
    for group in groups:
        some = [head for head, record in zip(heads, records) if group in record]
        lines += [
            "",
            f"### {group}",
            "",
            "| row | " + " | ".join(f"ferro, {h} | ratio" for h in some) + " |",
            f"|---|{'---|---|' * len(some)}",
        ]
        named = [{row["name"]: row for row in record[group]} for record in records if group in record]
        for name in named[0]:
            rows = [some[name] for some in named if name in some]
            cells = [
                f"{amount(row, 'ferro')} | {row['ratio_of_minima']:.2f} [{row['ratio_of_medians']:.2f}]" for row in rows
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(paths: list[str]) -> None:
    """Put the tables between the marks of the page."""
    records = [json.loads(Path(path).read_text()) for path in paths]
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{tables(records)}{END}{after}")
    print(f"wrote {PAGE.name}: {sum(len(records[0][group]) for group in GROUPS if group in records[0])} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
