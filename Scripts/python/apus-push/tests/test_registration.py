"""The clients of the HTTP API, without a service: what they ask for, and how often."""

from __future__ import annotations

import unittest
from typing import Callable

import httpx
from apus_push import RegistrationClient, RegistrationError

Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> RegistrationClient:
    return RegistrationClient(app="demo", key="k", transport=httpx.MockTransport(handler))


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


if __name__ == "__main__":
    unittest.main()
