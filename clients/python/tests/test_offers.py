"""Services that programs offer, against real daemons."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable

import roost
from roost import Area, AsyncRoost, IncomingRequest, Roost

from .network import Network, folder_of_programs, wait_until

THERE = Area.at(5, 5)
MAP = bytes(range(256)) * 1000


@unittest.skipUnless(folder_of_programs(), "ROOST_PROGRAMS names no folder with the daemons")
class Offers(unittest.TestCase):
    network: Network
    provider: Roost
    requester: Roost

    @classmethod
    def setUpClass(cls) -> None:
        cls.network = Network()
        cls.addClassCleanup(cls.network.stop)
        hub = cls.network.hub("sn1")
        cls.provider = cls.network.node("camera", "5,5", hub)
        cls.requester = cls.network.node("ground", "1,1", hub)

    def serve(self, service: str, answer: Callable[[IncomingRequest], None]) -> None:
        """Offers until the end of the test, and waits until the other node finds the service."""
        offering = self.provider.offer(service)
        thread = threading.Thread(target=offering.serve, args=(answer,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(offering.close)
        self.wait_until_found(service)

    def wait_until_found(self, service: str) -> None:
        name = service.partition(":")[0]
        wait_until(lambda: self.requester.lookup(name)["candidates"] or None, f"{name} is not found")

    def test_object_arrives_whole(self) -> None:
        incoming: list[roost.OfferRequest] = []

        def answer(request: IncomingRequest) -> None:
            incoming.append(request.request)
            request.answer(MAP, "image/tiff")

        self.serve("acme/map:object", answer)
        with self.requester.request("acme/map", THERE) as transfer:
            self.assertEqual(transfer.read(), MAP)
        self.assertEqual(transfer.accepted["format"], "image/tiff")
        self.assertEqual((incoming[0].requester_name, incoming[0].service), ("ground", "acme/map:object"))

    def test_stream_lasts_until_its_requester_goes(self) -> None:
        ended = threading.Event()

        def answer(request: IncomingRequest) -> None:
            with request.give() as answer:
                while answer.send(b"scan"):
                    pass
            self.assertTrue(request.wait_until_gone(20))
            ended.set()

        self.serve("acme/lidar:stream", answer)
        with self.requester.request("acme/lidar", THERE, duration=60) as stream:
            self.assertEqual([next(stream) for _ in range(5)], [b"scan"] * 5)
        self.assertTrue(ended.wait(20))

    def test_requests_are_declined(self) -> None:
        def answer(request: IncomingRequest) -> None:
            if request.request.service == "acme/mute:object":
                raise ValueError("this program fails")
            request.decline("no map of there")

        self.serve("acme/none:object", answer)
        with self.assertRaisesRegex(roost.Refused, 'declined: "no map of there"') as declined:
            self.requester.request("acme/none", THERE)
        self.assertEqual(declined.exception.provider_reason, "no map of there")
        self.serve("acme/mute:object", answer)
        with self.assertLogs("roost", "ERROR"), self.assertRaisesRegex(roost.Refused, "its program does not answer"):
            self.requester.request("acme/mute", THERE)

    def test_reasons_are_one_short_line(self) -> None:
        refusals: list[roost.RoostError] = []

        def answer(request: IncomingRequest) -> None:
            try:
                request.decline("x" * 201)
            except roost.UsageError as error:
                refusals.append(error)
            request.decline("no map\nof there\x1b[2J")

        self.serve("acme/lines:object", answer)
        with self.assertRaises(roost.Refused) as declined:
            self.requester.request("acme/lines", THERE)
        self.assertEqual(declined.exception.provider_reason, "no map of there [2J")
        self.assertIn("at most 200 bytes", str(refusals[0]))

    def test_exception_breaks_the_data_off(self) -> None:
        def answer(request: IncomingRequest) -> None:
            with request.give() as answer:
                answer.send(b"half")
                raise ValueError("this program fails")

        self.serve("acme/half:object", answer)
        with self.assertLogs("roost", "ERROR"), self.assertRaises(roost.RoostError):
            self.requester.request("acme/half", THERE).read()

    def test_offer_is_found_by_metadata_and_withdrawn(self) -> None:
        with self.provider.offer("acme/mast:object", metadata={"sensor": "ir"}):
            self.wait_until_found("acme/mast")
            self.assertTrue(self.requester.lookup("acme/mast", where={"sensor": "ir"})["candidates"])
            self.assertEqual(self.requester.lookup("acme/mast", where={"sensor": "radar"})["candidates"], [])
            with self.assertRaisesRegex(roost.UsageError, "is offered here already"):
                self.provider.offer("acme/mast:object")
        wait_until(lambda: not self.requester.lookup("acme/mast")["candidates"] or None, "it is still found")

    def test_asyncio_serves_object_and_stream(self) -> None:
        far, near = AsyncRoost(self.provider.socket), AsyncRoost(self.requester.socket)

        async def found(service: str) -> None:
            while not (await near.lookup(service))["candidates"]:
                await asyncio.sleep(0.02)

        async def answer_objects() -> None:
            async with far.offer("acme/async-map:object") as offering:
                async for incoming in offering:
                    await incoming.answer(MAP)
                    return

        async def ask_objects() -> None:
            await found("acme/async-map")
            async with near.request("acme/async-map", THERE) as transfer:
                self.assertEqual(await transfer.read(), MAP)

        async def answer_stream() -> None:
            async with far.offer("acme/async-lidar:stream", kbps=400) as offering:
                async for incoming in offering:
                    async with await incoming.give() as answer:
                        while await answer.send(b"scan"):
                            pass
                    await incoming.wait_until_gone()
                    return

        async def ask_stream() -> None:
            await found("acme/async-lidar")
            async with near.request("acme/async-lidar", THERE, duration=60) as stream:
                self.assertEqual([await stream.__anext__() for _ in range(5)], [b"scan"] * 5)

        async def run() -> None:
            await asyncio.wait_for(asyncio.gather(answer_objects(), ask_objects()), 30)
            await asyncio.wait_for(asyncio.gather(answer_stream(), ask_stream()), 30)

        asyncio.run(run())
