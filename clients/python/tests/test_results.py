"""Results of `emulate`, read from files made by hand and from a simulated run of the real program."""

from __future__ import annotations

import json
import math
import tempfile
import unittest
from pathlib import Path

from roost import emulate
from roost.results import ResultsError, Run, Sweep, mean_and_half_width, seconds

from .network import folder_of_programs

try:
    import pandas
except ImportError:
    pandas = None

PLAN = """
topology = { star = { nodes = 4 } }
architecture = "super-node"
duration = "8s"
drain = "20s"

[sweep]
architecture = ["client-server", "super-node"]
seed = [1, 2]
"""

NODE = {"record": "node", "node": "a", "class": "x", "role": "node", "cpu_s": 1.0, "waited_s": 0.0}


def write_run(folder: Path, records: list[dict[str, object]], **facts: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    run = {"schema": 1, "name": folder.name, "architecture": "super-node", "seed": 3, "verdict": {"valid": True}}
    (folder / "run.json").write_text(json.dumps(run | facts))
    (folder / "events.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


class FilesByHand(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = Path(holder.name)

    def test_requests_have_the_latency_of_the_report(self) -> None:
        common = {"record": "request", "t": 1.0, "elapsed_ms": 90.0, "first_byte_ms": 7.0}
        records: list[dict[str, object]] = [
            {**common, "service": "video", "outcome": "completed"},
            {**common, "service": "image", "outcome": "completed"},
            {**common, "service": "image", "outcome": "failed"},
        ]
        run = Run.open(write_run(self.path / "one", records))
        self.assertEqual([row["latency_ms"] for row in run.rows("requests")], [7.0, 90.0, None])

    def test_daemons_have_differences_of_counters(self) -> None:
        first = {**NODE, "t": 0.0, "sent_bytes": 10, "received_bytes": 5, "traffic_sent_bytes": {"join": 4}}
        last = {**first, "t": 9.0, "sent_bytes": 110, "cpu_s": 1.5, "traffic_sent_bytes": {"join": 5, "renew": 2}}
        row = Run.open(write_run(self.path / "one", [first, last])).rows("nodes")[0]
        told = (row["sent_bytes"], row["received_bytes"], row["cpu_s"], row["join_bytes"], row["renew_bytes"])
        self.assertEqual(told, (100, 0, 0.5, 1, 2))

    def test_unknown_kinds_are_kept(self) -> None:
        run = Run.open(write_run(self.path / "one", [{"record": "measurement", "name": "fps", "value": 3}]))
        self.assertEqual(run.rows("measurement"), [{"name": "fps", "value": 3}])
        self.assertEqual((run.rows("requests"), run.rows("never-heard-of")), ([], []))

    def test_loads_are_rows_of_links(self) -> None:
        load = {"record": "load", "t": 2.0, "links": [{"link": "net", "used": 0.5}, {"link": "up", "used": 0.1}]}
        rows = Run.open(write_run(self.path / "one", [load])).rows("load")
        self.assertEqual([(row["t"], row["link"]) for row in rows], [(2.0, "net"), (2.0, "up")])

    def test_sweeps_have_columns_of_factors(self) -> None:
        incident: dict[str, object] = {"record": "incident", "t": 1.0, "object": "net", "what": "down"}
        write_run(self.path / "a", [incident], varied={"delay": "50ms", "nodes": "11"})
        write_run(self.path / "deep" / "b", [], verdict={"valid": False, "reasons": ["late"]})
        sweep = Sweep.open(self.path)
        row = sweep.rows("incidents")[0]
        self.assertEqual((row["run"], row["delay"], row["nodes"], row["seed"]), ("a", "50ms", 11, 3))
        self.assertEqual(([run.name for run in sweep.trusted.runs], sweep.runs[1].reasons), (["a"], ["late"]))

    def test_factors_keep_their_names(self) -> None:
        state: dict[str, object] = {"record": "link-state", "t": 1.0, "loss": 0.5, "run": 7}
        write_run(self.path / "a", [state], varied={"loss": "0.01", "case": "nan", "nodes": "4"}, nodes=5)
        sweep = Sweep.open(self.path)
        for kind in ("link-state", "link-states"):
            row = sweep.rows(kind)[0]
            told = (row["loss"], row["record_loss"], row["run"], row["record_run"], row["case"])
            self.assertEqual(told, (0.01, 0.5, "a", 7, "nan"))
        if pandas is not None:
            self.assertEqual((sweep.facts["nodes"][0], sweep.facts["record_nodes"][0]), (4, 5))

    def test_measurements_and_motion_have_tables(self) -> None:
        records: list[dict[str, object]] = [
            {"record": "measurement", "measure": "rtt", "value": 3},
            {"record": "motion", "host": "a"},
        ]
        run = Run.open(write_run(self.path / "one", records))
        self.assertEqual(run.rows("measurements"), [{"measure": "rtt", "value": 3, "kind": "value"}])
        self.assertEqual(run.rows("motion"), [{"host": "a"}])
        if pandas is not None:
            self.assertEqual((len(run.measurements), len(run.motion), len(run.link_states)), (1, 1, 0))

    def test_broken_files_are_named(self) -> None:
        folder = write_run(self.path / "one", [])
        (folder / "events.jsonl").write_text('{"record": "sample", "t": 1}\n{"record": "sam')
        self.assertEqual(len(Run.open(folder).rows("samples")), 1)
        (folder / "events.jsonl").write_text("nonsense\n")
        with self.assertRaisesRegex(ResultsError, "events.jsonl, line 1"):
            Run.open(folder)
        (folder / "run.json").write_text('{"schema": 99}')
        with self.assertRaisesRegex(ResultsError, "schema 99"):
            Run.open(folder)
        for empty in (Run.open, Sweep.open):
            with self.assertRaisesRegex(ResultsError, "name "):
                empty(self.path / "none")

    def test_times_and_intervals(self) -> None:
        self.assertEqual([seconds(text) for text in ("250ms", "1m30s", "2h")], [0.25, 90.0, 7200.0])
        for wrong in ("", "5", "5 s", "s5"):
            self.assertRaises(ValueError, seconds, wrong)
        mean, half = mean_and_half_width([1.0, 2.0, 3.0, math.nan])
        self.assertEqual((mean, round(half, 3)), (2.0, 2.484))
        self.assertTrue(math.isnan(mean_and_half_width([5.0])[1]) and math.isnan(mean_and_half_width([])[0]))

    def test_frames_without_pandas_say_so(self) -> None:
        run = Run.open(write_run(self.path / "one", []))
        if pandas is None:
            with self.assertRaisesRegex(ResultsError, "pip install"):
                run.requests
        else:
            self.assertTrue(run.requests.empty)


@unittest.skipUnless(folder_of_programs(), "set ROOST_PROGRAMS to the folder of the programs: target/debug")
class RealRuns(unittest.TestCase):
    def test_simulated_sweep_is_read(self) -> None:
        with tempfile.TemporaryDirectory() as holder:
            plan = Path(holder, "plan.toml")
            plan.write_text(PLAN)
            sweep = emulate.sweep(plan, Path(holder, "results"), simulate=True)
            self.assertEqual(len(sweep.runs), 4)
            self.assertTrue(all(run.is_valid and run.is_simulated for run in sweep.runs))
            requests = sweep.rows("requests")
            self.assertEqual({row["architecture"] for row in requests}, {"client-server", "super-node"})
            self.assertTrue(any(row["latency_ms"] for row in requests))
            for kind in ("samples", "links", "nodes"):
                self.assertTrue(sweep.rows(kind), kind)
            if pandas is not None:
                medians = sweep.requests.groupby(["architecture", "seed"])["latency_ms"].median()
                self.assertEqual(len(medians), 4)
                self.assertTrue(sweep.facts["valid"].all())
            run = emulate.simulate(plan, seed=7, duration="4s")
            self.assertEqual((run.facts["seed"], run.facts["duration_s"]), (7, 4.0))

    def test_mistakes_are_those_of_the_program(self) -> None:
        with self.assertRaisesRegex(emulate.EmulateError, "no-such-plan.toml") as raised:
            emulate.simulate("no-such-plan.toml")
        self.assertEqual(raised.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
