"""All operations against real daemons: a super node and nodes on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import io
import shutil
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import roost
from roost import Area, AsyncRoost

from .network import Network, folder_of_programs, wait_until

HERE, THERE, NOWHERE = Area.at(1, 1), Area.at(5, 5), Area.at(90, 90)
FILE = bytes(range(256)) * 4000


@unittest.skipUnless(folder_of_programs(), "ROOST_PROGRAMS names no folder with the daemons")
class WithDaemons(unittest.TestCase):
    network: Network
    hub: roost.Roost
    provider: roost.Roost
    requester: roost.Roost

    @classmethod
    def setUpClass(cls) -> None:
        cls.network = Network()
        cls.addClassCleanup(cls.network.stop)
        cls.hub = cls.network.hub("sn1")
        inbox = cls.network.path / "inbox"
        inbox.mkdir()
        more = ("--services", "video,image", "--inbox", str(inbox))
        cls.provider = cls.network.node("camera", "5,5", cls.hub, *more)
        cls.requester = cls.network.node("ground", "1,1", cls.hub)

    def file(self, name: str = "survey.tif") -> Path:
        path = self.network.path / name
        path.write_bytes(FILE + name.encode())
        return path

    def received(self, name: str) -> bytes:
        return next((self.network.path / "inbox").rglob(name)).read_bytes()

    def wait_until_nothing_is_sent(self) -> None:
        """Waits until the provider sends nothing to ``ground``. A killed requester gets data until it is missed."""

        def is_idle() -> bool | None:
            sends = self.provider.status().get("providing", [])
            return all(row.get("remote_name") != "ground" for row in sends) or None

        wait_until(is_idle, "the provider goes on sending")


class Queries(WithDaemons):
    def test_status_names_the_node(self) -> None:
        status = self.requester.status()
        self.assertEqual((status["name"], status["cell"], status["hub"]["name"]), ("ground", "1,1", "sn1"))

    def test_services_of_node_and_hub(self) -> None:
        offered = {row["service"] for row in self.provider.services()["services"]}
        self.assertEqual(offered, {"video", "image"})
        known = {row["service"]: row["providers"] for row in self.hub.services()["services"]}
        self.assertEqual(known["video"], 1)

    def test_lookup_finds_the_provider(self) -> None:
        for area in (THERE, Area.near(4, 4), Area.near(4, 4, within=3), Area.rect(9, 9, 0, 0), roost.ANYWHERE):
            found = self.requester.lookup("video", area, count=3, names=True, timeout=10)
            self.assertEqual([node["name"] for node in found["candidates"]], ["camera"], area)
        self.assertEqual(self.requester.lookup("video", NOWHERE)["candidates"], [])

    def test_ping_measures_hub_and_node(self) -> None:
        self.assertEqual(self.requester.ping()["name"], "sn1")
        # A node answers over the connection that a transfer left.
        self.requester.request("image", THERE).read()
        self.assertGreater(self.requester.ping("camera")["rtt_ms"], 0)
        with self.assertRaises(roost.NotFound):
            self.requester.ping("nobody")

    def test_wrong_uses_name_the_error(self) -> None:
        with self.assertRaisesRegex(roost.UsageError, "k=999"):
            self.requester.lookup("video", count=999)
        with self.assertRaises(roost.UsageError):
            self.requester.request("video", scope="everywhere")
        with self.assertRaises(roost.UsageError):
            self.requester.room("")
        with self.assertRaises(roost.UsageError):
            self.hub.request("video")

    def test_absent_daemon_is_unreachable(self) -> None:
        with self.assertRaisesRegex(roost.Unreachable, "no daemon answers on /nowhere"):
            roost.Roost("/nowhere").status()
        with self.assertRaises(roost.Unreachable):
            asyncio.run(AsyncRoost("/nowhere").status())


class Transfers(WithDaemons):
    def test_object_is_saved_whole(self) -> None:
        path = self.network.path / "picture.jpg"
        transfer = self.requester.request("image", THERE)
        self.assertEqual(transfer.save(path), path)
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), transfer.accepted["sha256"])
        assert transfer.summary
        self.assertEqual(transfer.summary["bytes"], path.stat().st_size)
        self.assertEqual(list(self.network.path.glob("*.part")), [])

    def test_object_is_a_file(self) -> None:
        with self.requester.request("image", THERE) as image:
            whole = image.read()
        self.assertEqual(len(whole), image.accepted["bytes"])
        copy = io.BytesIO()
        with self.requester.request("image", THERE) as image:
            shutil.copyfileobj(io.BufferedReader(image), copy, 100)
            digest = image.accepted["sha256"]
        self.assertEqual(hashlib.sha256(copy.getvalue()).hexdigest(), digest)

    def test_stream_yields_datagrams_and_summary(self) -> None:
        with self.requester.request("video", THERE, duration=1, trace=True) as stream:
            datagrams = list(stream)
        assert stream.summary and stream.trace
        self.assertEqual(stream.summary["packets"], len(datagrams))
        self.assertEqual(stream.summary["bytes"], sum(map(len, datagrams)))
        self.assertTrue(stream.trace["hops"])

    def test_leaving_the_block_cancels(self) -> None:
        with self.requester.request("video", THERE, duration=600) as stream:
            next(stream)
        self.assertIsNone(stream.summary)
        self.wait_until_nothing_is_sent()

    def test_nobody_offers_it(self) -> None:
        with self.assertRaises(roost.NotFound) as caught:
            self.requester.request("video", NOWHERE, timeout=5)
        # A hub that started less than a lease ago is not sure.
        self.assertIn(caught.exception.code, ("not-found", "not-yet-known"))
        self.assertEqual(caught.exception.exit_code, 4)

    def test_subscription_ends_in_order(self) -> None:
        with self.requester.subscribe("video", THERE) as stream:
            for number, _ in enumerate(stream):
                if number == 20:
                    stream.end()
        assert stream.summary
        self.assertTrue(stream.accepted["reflected"])
        self.assertGreaterEqual(stream.summary["packets"], 20)

    def test_slow_reader_reads_whole_object(self) -> None:
        with self.requester.request("image", THERE) as image:
            time.sleep(0.5)
            self.assertEqual(len(b"".join(image)), image.accepted["bytes"])

    def test_failed_save_leaves_no_file(self) -> None:
        requester = self.network.node("doomed-1", "2,2", self.hub)
        threading.Timer(1, self.network.kill, ["doomed-1"]).start()
        path = self.network.path / "clip.ts"
        with self.assertRaisesRegex(roost.Incomplete, "in mid-transfer"):
            requester.request("video", THERE, duration=600).save(path)
        self.assertEqual(list(self.network.path.glob("clip.ts*")), [])

    def test_file_reaches_the_inbox(self) -> None:
        sent = self.requester.send(self.file(), "camera", timeout=10)
        self.assertEqual((sent["event"], sent["node_name"]), ("finished", "camera"))
        self.assertEqual(self.received("survey.tif"), FILE + b"survey.tif")

    def test_file_is_not_taken(self) -> None:
        with self.assertRaises(roost.NotFound):
            self.requester.send(self.file(), "nobody", timeout=3)
        with self.assertRaises(roost.Refused):
            self.provider.send(self.file(), "ground", timeout=10)
        options: Any = {"prioritty": "low"}
        with self.assertRaisesRegex(TypeError, "prioritty"):
            self.requester.send(self.file(), "camera", **options)


class Standing(WithDaemons):
    def test_watch_reports_a_move(self) -> None:
        with self.requester.watch(services=["video"], names=True) as changes:
            self.assertEqual([node["name"] for node in next(changes)["present"]], ["camera"])
            self.assertEqual(self.provider.move(6, 6), {"schema": 2, "from": "5,5", "to": "6,6"})
            self.addCleanup(self.provider.move, 5, 5)
            self.assertEqual([node["cell"] for node in next(changes)["present"]], ["6,6"])

    def test_room_lists_the_other_member(self) -> None:
        with self.requester.room("ops & air", names=True) as roster:
            self.assertEqual(next(roster)["members"], [])
            with self.provider.room("ops & air") as other:
                next(other)
                self.assertEqual([member["cell"] for member in next(roster)["members"]], ["5,5"])
            # A name may come in a roster of its own.
            while next(roster)["members"]:
                pass

    def test_close_ends_a_waiting_thread(self) -> None:
        changes = self.requester.watch()
        next(changes)
        timer = threading.Timer(0.3, changes.close)
        timer.start()
        self.assertEqual(list(changes), [])
        timer.join()

    def test_dead_daemon_ends_a_watch(self) -> None:
        with self.network.node("doomed-2", "2,2", self.hub).watch(NOWHERE) as changes:
            next(changes)
            self.network.kill("doomed-2")
            with self.assertRaisesRegex(roost.Unreachable, "broke off"):
                list(changes)


class Asynchronous(WithDaemons):
    def setUp(self) -> None:
        self.far = AsyncRoost(self.provider.socket)
        self.near = AsyncRoost(self.requester.socket)

    def test_queries(self) -> None:
        async def run() -> None:
            status, services, ping = await asyncio.gather(self.near.status(), self.far.services(), self.near.ping())
            self.assertEqual((status["name"], ping["name"]), ("ground", "sn1"))
            self.assertEqual(len(services["services"]), 2)
            found = await self.near.lookup("video", THERE, names=True)
            self.assertEqual([node["name"] for node in found["candidates"]], ["camera"])
            self.assertEqual((await self.near.move(1, 1))["to"], "1,1")
            with self.assertRaises(roost.UsageError):
                await self.near.lookup("video", count=999)

        asyncio.run(run())

    def test_object_and_stream_at_once(self) -> None:
        async def stream() -> int:
            async with self.near.request("video", THERE, duration=1) as stream:
                datagrams = [datagram async for datagram in stream]
            assert stream.summary
            self.assertEqual(stream.summary["packets"], len(datagrams))
            return len(datagrams)

        async def run() -> None:
            image = await self.near.request("image", THERE)
            path, datagrams = await asyncio.gather(image.save(self.network.path / "async.jpg"), stream())
            self.assertEqual(path.stat().st_size, image.accepted["bytes"])
            self.assertGreater(datagrams, 0)
            async with self.near.request("image", THERE) as image:
                self.assertEqual(len(await image.read()), image.accepted["bytes"])
            with self.assertRaises(roost.NotFound):
                await self.near.request("video", NOWHERE, timeout=5)

        asyncio.run(run())

    def test_subscription_ends_and_cancels(self) -> None:
        async def run() -> None:
            async with self.near.subscribe("video", THERE) as stream:
                await stream.__anext__()
                await stream.end()
                await stream.read()
            assert stream.summary
            async with self.near.request("video", THERE, duration=600) as stream:
                await stream.__anext__()

        asyncio.run(run())
        self.wait_until_nothing_is_sent()

    def test_standing_queries_and_file(self) -> None:
        async def run() -> None:
            async with self.near.watch(THERE, services=["video"]) as changes, self.near.room("ops") as roster:
                self.assertEqual(len((await changes.__anext__())["present"]), 1)
                self.assertEqual((await roster.__anext__())["members"], [])
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(changes.__anext__(), 0.2)
            sent = await self.near.send(self.file("async.tif"), "camera")
            self.assertEqual(sent["event"], "finished")

        asyncio.run(run())
        self.assertEqual(self.received("async.tif"), FILE + b"async.tif")

    def test_daemon_dies_in_mid_transfer(self) -> None:
        doomed = AsyncRoost(self.network.node("doomed-3", "2,2", self.hub).socket)

        async def run() -> None:
            async with doomed.request("video", THERE, duration=600) as stream:
                await stream.__anext__()
                await asyncio.to_thread(self.network.kill, "doomed-3")
                with self.assertRaises(roost.Incomplete):
                    await stream.read()

        asyncio.run(run())
