"""The clients of the HTTP API, without a service: what they ask for, and how often."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any, Callable, Iterator
from unittest import mock

import httpx
from apus_push import AsyncRegistrationClient, ImportedDevice, RegistrationClient, RegistrationError
from apus_push import registration

Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> RegistrationClient:
    return RegistrationClient(app="demo", key="k", transport=httpx.MockTransport(handler))


class ImportService:
    """Answers imports as the service does, and keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        #: The status of the next answers, before the usual ones.
        self.failures: list[int] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/apps/demo/devices:import"
        assert request.headers["content-type"] == request.headers["accept"] == "application/x-ndjson"
        self.bodies.append(request.content)
        if self.failures:
            return httpx.Response(self.failures.pop(0), headers={"retry-after": "0"})
        lines = request.content.splitlines()
        answers = [{"line": number, "status": 201, "device": json.loads(line)["device"]} for number, line in enumerate(lines, 1)]
        return httpx.Response(200, content="".join(json.dumps(answer) + "\n" for answer in answers))

    @property
    def lines(self) -> list[int]:
        return [len(body.splitlines()) for body in self.bodies]


def devices(count: int, **more: Any) -> Iterator[ImportedDevice]:
    for number in range(count):
        device: ImportedDevice = {"device": f"d{number}", "provider": "fcm", "token": f"t{number}"}
        device.update(more)  # type: ignore[typeddict-item]
        yield device


class ImportTests(unittest.TestCase):
    def test_many_lines_are_several_requests_whose_answers_are_numbered_through(self) -> None:
        service = ImportService()
        read = 0

        def counted() -> Iterator[ImportedDevice]:
            nonlocal read
            for device in devices(12_000):
                read += 1
                yield device

        with client(service) as made:
            answers = made.import_devices(counted())
            first = next(answers)
            self.assertEqual((first["line"], first["device"]), (1, "d0"))
            # The others are not read before the answers to these were taken.
            self.assertEqual((service.lines, read), ([5_000], 5_001))
            rest = list(answers)
        self.assertEqual(service.lines, [5_000, 5_000, 2_000])
        self.assertEqual([answer["line"] for answer in rest], list(range(2, 12_001)))
        self.assertEqual([answer["device"] for answer in rest[-2:]], ["d11998", "d11999"])

    def test_a_request_has_a_limit_of_bytes(self) -> None:
        service = ImportService()
        with mock.patch.object(registration, "IMPORT_BYTES_MAX", 1_000), client(service) as made:
            long = list(devices(1, user="u" * 2_000))
            answers = list(made.import_devices([*devices(50), *long, *devices(1)]))
        self.assertEqual([answer["line"] for answer in answers], list(range(1, 53)))
        self.assertEqual(sum(service.lines), 52)
        self.assertEqual([len(body) > 1_000 for body in service.bodies].count(True), 1)

    def test_a_request_that_the_service_cannot_take_is_made_again_and_the_next_ones_go_on(self) -> None:
        service = ImportService()
        service.failures = [429, 503]
        with client(service) as made:
            answers = list(made.import_devices(devices(5_001)))
        self.assertEqual([answer["line"] for answer in answers], list(range(1, 5_002)))
        self.assertEqual(service.lines, [5_000, 5_000, 5_000, 1])

    def test_asyncio_imports_in_several_requests_too(self) -> None:
        service = ImportService()

        async def run() -> list[int]:
            transport = httpx.MockTransport(service)
            async with AsyncRegistrationClient(app="demo", key="k", transport=transport) as made:
                return [answer["line"] async for answer in made.import_devices(devices(5_002))]

        self.assertEqual(asyncio.run(run()), list(range(1, 5_003)))
        self.assertEqual(service.lines, [5_000, 2])

    def test_nothing_asks_for_nothing(self) -> None:
        service = ImportService()
        with client(service) as made:
            self.assertEqual(list(made.import_devices([])), [])
        self.assertEqual(service.bodies, [])


class RepetitionTests(unittest.TestCase):
    def asked(self, statuses: list[int], ask: Callable[[RegistrationClient], object]) -> tuple[int | None, int]:
        """Returns the status of the error, if there is one, and the number of requests."""
        count = 0

        def handler(request: httpx.Request) -> httpx.Response:
            nonlocal count
            count += 1
            return httpx.Response(statuses[min(count, len(statuses)) - 1], headers={"retry-after": "0"}, content=b'{"send":"s"}')

        with client(handler) as made:
            try:
                ask(made)
            except RegistrationError as error:
                return error.status, count
        return None, count

    def test_a_device_that_may_have_been_created_just_now_is_not_told_to_have_been_there_before(self) -> None:
        def put(made: RegistrationClient) -> object:
            return made.put_device("phone", {"provider": "fcm", "token": "t"}, only_new=True)

        # No replica had the device in time, but the service has it.
        self.assertEqual(self.asked([503, 412], put), (503, 1))
        self.assertEqual(self.asked([429, 412], put), (412, 2))
        self.assertEqual(self.asked([429, 201], put), (None, 2))

    def test_a_test_notification_is_sent_once(self) -> None:
        self.assertEqual(self.asked([503, 200], lambda made: made.test("phone")), (503, 1))

    def test_what_may_be_repeated_is(self) -> None:
        self.assertEqual(self.asked([503, 200], lambda made: made.put_device("phone", {"provider": "fcm", "token": "t"})), (None, 2))
        self.assertEqual(self.asked([503], lambda made: made.subscribe("phone", "news")), (503, 5))


#: A request of each method.
CALLS: dict[str, Callable[[Any], Any]] = {
    "put_device": lambda made: made.put_device("phone", {"provider": "fcm", "token": "t"}),
    "device": lambda made: made.device("phone"),
    "change_device": lambda made: made.change_device("phone", {"badge": 1}),
    "delete_device": lambda made: made.delete_device("phone"),
    "topics": lambda made: made.topics("phone"),
    "set_topics": lambda made: made.set_topics("phone", ["news"]),
    "change_topics": lambda made: made.change_topics("phone", subscribe=["news"]),
    "subscribe": lambda made: made.subscribe("phone", "a b/c"),
    "unsubscribe": lambda made: made.unsubscribe("phone", "news"),
    "put_activity": lambda made: made.put_activity("phone", "score", kind="live_activity_update", token="t"),
    "delete_activity": lambda made: made.delete_activity("phone", "score"),
    "test": lambda made: made.test("phone"),
    "user_devices": lambda made: made.user_devices("ada"),
    "log_in": lambda made: made.log_in("ada", "phone"),
    "log_out": lambda made: made.log_out("ada", "phone"),
    "delete_user": lambda made: made.delete_user("ada"),
    "import_devices": lambda made: made.import_devices(devices(2)),
}


class ForeignAnswerTests(unittest.TestCase):
    """Answers of another server than the service: a proxy, or a page for people."""

    HTML = b"<html>Moved</html>"

    def refusals(self, handler: Handler) -> Iterator[RegistrationError]:
        """Yields what each method of both clients raises."""
        for name, call in CALLS.items():
            for kind in (RegistrationClient, AsyncRegistrationClient):
                with self.subTest(client=kind.__name__, method=name), self.assertRaises(RegistrationError) as caught:
                    made = kind("http://push.example/apus/", app="demo", key="k", transport=httpx.MockTransport(handler))
                    asyncio.run(self.ask(made, call))
                yield caught.exception

    @staticmethod
    async def ask(made: Any, call: Callable[[Any], Any]) -> None:
        try:
            answer = call(made)
            if hasattr(answer, "__aiter__"):
                answer = [each async for each in answer]
            elif isinstance(made, AsyncRegistrationClient):
                answer = await answer
            elif isinstance(answer, Iterator):
                answer = list(answer)
        finally:
            await made.close() if isinstance(made, AsyncRegistrationClient) else made.close()

    def test_every_method_is_listed(self) -> None:
        methods = {name for name in vars(RegistrationClient) if not name.startswith("_")}
        self.assertEqual(set(CALLS), methods - {"close"})

    def test_a_redirect_is_an_error_that_names_the_right_address(self) -> None:
        for status in (301, 308):
            for body in (b"", self.HTML):
                count = 0

                def handler(request: httpx.Request) -> httpx.Response:
                    nonlocal count
                    count += 1
                    path = request.url.raw_path.decode()
                    return httpx.Response(status, headers={"location": f"https://push.example{path}"}, content=body)

                for error in self.refusals(handler):
                    self.assertEqual(error.status, status)
                    words = f"{status}: answers with a redirect to https://push.example/apus: give that address as url"
                    self.assertEqual(str(error), words)
                self.assertEqual(count, 2 * len(CALLS))

    def test_a_redirect_to_elsewhere_or_nowhere_is_an_error(self) -> None:
        for error in self.refusals(lambda request: httpx.Response(302, headers={"location": "/login"}, content=self.HTML)):
            self.assertIn("redirect to http://push.example/login:", str(error))
        for error in self.refusals(lambda request: httpx.Response(304)):
            self.assertEqual((error.status, str(error)), (304, "304: Not Modified"))

    def test_a_page_for_people_is_an_error(self) -> None:
        for error in self.refusals(lambda request: httpx.Response(200, content=self.HTML)):
            self.assertEqual(error.status, 200)
            self.assertIn("is no JSON: give the address of apus-registration as url", str(error))


if __name__ == "__main__":
    unittest.main()
