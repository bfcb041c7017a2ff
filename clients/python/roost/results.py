"""Reads the results of ``emulate``: a run's folder, or a whole sweep, as rows or as frames of pandas.

``Run.open(folder)`` and ``Sweep.open(folder)`` read ``run.json`` and ``events.jsonl``. Rows are plain dictionaries, which
need nothing else. Frames need pandas: ``pip install 'roost[results]'``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, Any]

RUN_FILE = "run.json"
EVENTS_FILE = "events.jsonl"
SCHEMA = 1
"""The newest version of ``run.json`` that this library reads."""

STREAMS = frozenset({"video", "track"})
"""Services whose latency ends with the first byte. That of the others ends with the last one."""


class ResultsError(Exception):
    """A folder is not that of a run, or one of its files cannot be read."""


class Tables:
    """The tables of a run, or those of all runs of a sweep one below the other."""

    def rows(self, kind: str) -> list[Row]:
        raise NotImplementedError

    def frame(self, kind: str) -> DataFrame:
        return _frame(self.rows(kind), kind)

    @property
    def requests(self) -> DataFrame:
        """A row for each request, with ``latency_ms`` of the completed ones as the report computes it."""
        return self.frame("requests")

    @property
    def incidents(self) -> DataFrame:
        """Faults, and what else happened."""
        return self.frame("incidents")

    @property
    def samples(self) -> DataFrame:
        """The run second by second."""
        return self.frame("samples")

    @property
    def links(self) -> DataFrame:
        """The counters of each direction of each link and LAN."""
        return self.frame("links")

    @property
    def load(self) -> DataFrame:
        """The busy directions of links, second by second."""
        return self.frame("load")

    @property
    def nodes(self) -> DataFrame:
        """A row for each daemon: what it sent, received and used from the start of the workload to its end."""
        return self.frame("nodes")

    @property
    def positions(self) -> DataFrame:
        """The cell of each node that moves, at each step."""
        return self.frame("positions")

    @property
    def motion(self) -> DataFrame:
        """The place of each host in motion, second by second."""
        return self.frame("motion")

    @property
    def link_states(self) -> DataFrame:
        """The links of radios: a row for each change of a direction."""
        return self.frame("link-states")

    @property
    def measurements(self) -> DataFrame:
        """What programs measured."""
        return self.frame("measurements")

    @property
    def rooms(self) -> DataFrame:
        """The stream of each member of a room at each other."""
        return self.frame("rooms")

    @property
    def programs(self) -> DataFrame:
        """The programs that a network ran, and how they ended."""
        return self.frame("programs")

    @property
    def traffic(self) -> DataFrame:
        """The counters of traffic agents."""
        return self.frame("traffic")


@dataclass(frozen=True)
class Run(Tables):
    """One run: its facts, and its records by kind."""

    folder: Path
    facts: Row
    """``run.json``."""
    records: dict[str, list[Row]] = field(repr=False)
    """The records of ``events.jsonl`` by kind, as they are, also those of kinds that are unknown here."""

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        folder = Path(folder)
        facts = _read_facts(folder)
        records: dict[str, list[Row]] = {}
        for record in _read_events(folder / EVENTS_FILE):
            records.setdefault(str(record.pop("record", "unknown")), []).append(record)
        return cls(folder, facts, records)

    @property
    def name(self) -> str:
        return str(self.facts.get("name", self.folder.name))

    @property
    def is_valid(self) -> bool:
        """False if the figures cannot be trusted; ``reasons`` tells why."""
        return bool(self.facts.get("verdict", {}).get("valid", False))

    @property
    def reasons(self) -> list[str]:
        return list(self.facts.get("verdict", {}).get("reasons", []))

    @property
    def is_simulated(self) -> bool:
        return bool(self.facts.get("lab", {}).get("backend") == "simulation")

    @cached_property
    def factors(self) -> Row:
        """What a sweep varied, with the values of this run; and its seed and architecture."""
        varied = {name: _number(value) for name, value in self.facts.get("varied", {}).items()}
        return {"architecture": self.facts.get("architecture"), "seed": self.facts.get("seed"), **varied}

    def rows(self, kind: str) -> list[Row]:
        """The rows of a table: ``requests`` and its like as below, or the records of a kind as they are."""
        rows = _TABLES.get(kind)
        return rows(self.records) if rows else self.records.get(kind, [])


@dataclass(frozen=True)
class Sweep(Tables):
    """Several runs below a folder. Their frames have a column for each factor."""

    folder: Path
    runs: tuple[Run, ...] = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Sweep:
        folder = Path(folder)
        folders = sorted(path.parent for path in folder.rglob(RUN_FILE))
        if not folders:
            raise ResultsError(f"there is no run under {folder}: name a folder that `emulate sweep` wrote")
        return cls(folder, tuple(Run.open(one) for one in folders))

    @property
    def trusted(self) -> Sweep:
        """The runs that are valid and came to their end."""
        runs = (run for run in self.runs if run.is_valid and not run.facts.get("interrupted", False))
        return Sweep(self.folder, tuple(runs))

    def rows(self, kind: str) -> list[Row]:
        """The rows of all runs, each with the name of its folder in ``run`` and the factors.

        Where a record has a value of the same name as a factor, ``loss`` is the factor and ``record_loss`` the value.
        """
        return [
            _beside({"run": str(run.folder.relative_to(self.folder)), **run.factors}, row)
            for run in self.runs
            for row in run.rows(kind)
        ]

    @property
    def facts(self) -> DataFrame:
        """A row for each run: its factors, whether it is valid, and how long it ran."""
        told = ("name", "topology", "transport", "nodes", "ran_s", "interrupted")
        rows: list[Row] = [
            _beside(
                {"run": str(run.folder.relative_to(self.folder)), **run.factors},
                {**{key: run.facts.get(key) for key in told}, "valid": run.is_valid},
            )
            for run in self.runs
        ]
        return _frame(rows, "facts")


def seconds(text: str) -> float:
    """The seconds of a time as plans write it: ``seconds("1m30s")`` is 90."""
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    parts = re.findall(r"([0-9.]+)(ns|us|ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no time: 250ms, 1m30s")
    return math.fsum(float(number) * units[unit] for number, unit in parts)


def mean_and_half_width(values: Iterable[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % interval by Student's t: of one value the half is not a number."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan, math.nan
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return mean, math.nan
    variance = math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)
    return mean, _student(len(known) - 1) * math.sqrt(variance / len(known))


_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t of 1 to 30 degrees of freedom."""


def _student(degrees: int) -> float:
    # Beyond the table the expansion of Cornish and Fisher is exact to three digits.
    return _STUDENT[degrees - 1] if degrees <= len(_STUDENT) else 1.96 + 2.372 / degrees


def _read_facts(folder: Path) -> Row:
    path = folder / RUN_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ResultsError(f"{folder} has no {RUN_FILE}: name the folder that `emulate run` wrote") from error
    except (OSError, ValueError) as error:
        raise ResultsError(f"cannot read {path}: {error}") from error
    if not isinstance(facts, dict):
        raise ResultsError(f"cannot read {path}: it is no object")
    if facts.get("schema", 0) > SCHEMA:
        raise ResultsError(f"{path} has schema {facts['schema']}, and this library reads up to {SCHEMA}")
    return facts


def _read_events(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                except ValueError as error:
                    # A crash cuts the last line off.
                    if not line.endswith("\n"):
                        return
                    raise ResultsError(f"{path}, line {number}: {error}") from error
                if not isinstance(record, dict):
                    raise ResultsError(f"{path}, line {number}: it is no object")
                yield record
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error}") from error


def _number(text: object) -> object:
    try:
        return int(str(text))
    except ValueError:
        pass
    try:
        number = float(str(text))
    except ValueError:
        return text
    # A value may be named nan or inf.
    return number if math.isfinite(number) else text


def _beside(factors: Row, row: Row) -> Row:
    return {**factors, **{f"record_{name}" if name in factors else name: value for name, value in row.items()}}


def _requests(records: dict[str, list[Row]]) -> list[Row]:
    return [{**request, "latency_ms": _latency(request)} for request in records.get("request", [])]


def _latency(request: Row) -> float | None:
    if request.get("outcome") != "completed":
        return None
    latency = request.get("first_byte_ms" if request.get("service") in STREAMS else "elapsed_ms")
    return None if latency is None else float(latency)


def _load(records: dict[str, list[Row]]) -> list[Row]:
    return [{"t": load.get("t"), **link} for load in records.get("load", []) for link in load.get("links", [])]


_COUNTERS = ("sent_bytes", "received_bytes", "cpu_s", "waited_s")


def _nodes(records: dict[str, list[Row]]) -> list[Row]:
    spans: dict[str, list[Row]] = {}
    for record in records.get("node", []):
        spans.setdefault(str(record.get("node")), []).append(record)
    return [_span(name, span[0], span[-1]) for name, span in spans.items()]


def _span(name: str, first: Row, last: Row) -> Row:
    row: Row = {"node": name, "class": last.get("class"), "role": last.get("role")}
    row |= {key: last.get(key, 0) - first.get(key, 0) for key in _COUNTERS}
    row["memory_bytes"] = last.get("memory_bytes")
    before, after = first.get("traffic_sent_bytes", {}), last.get("traffic_sent_bytes", {})
    return row | {f"{traffic}_bytes": count - before.get(traffic, 0) for traffic, count in after.items()}


def _plain(kind: str) -> Any:
    return lambda records: records.get(kind, [])


def _measurements(records: dict[str, list[Row]]) -> list[Row]:
    # A record of a value does not say so.
    return [{**measurement, "kind": measurement.get("kind") or "value"} for measurement in records.get("measurement", [])]


_TABLES: dict[str, Any] = {
    "requests": _requests,
    "incidents": _plain("incident"),
    "samples": _plain("sample"),
    "links": _plain("link"),
    "load": _load,
    "nodes": _nodes,
    "positions": _plain("position"),
    "link-states": _plain("link-state"),
    "measurements": _measurements,
    "rooms": _plain("room-stream"),
    "programs": _plain("program"),
}


def _frame(rows: Sequence[Row], kind: str) -> DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise ResultsError(
            f"frames need pandas: pip install 'roost[results]', or use rows({kind!r}), which need nothing"
        ) from error
    return pandas.DataFrame(list(rows))
