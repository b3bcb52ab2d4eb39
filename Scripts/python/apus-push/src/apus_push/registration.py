"""Clients of the HTTP API of apus-registration: devices, topics, users. Of one thread, and for asyncio."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, AsyncIterator, Iterable, Iterator, Literal, Mapping, Sequence, TypedDict
from urllib.parse import quote

import httpx

from .errors import RegistrationError

ProviderName = Literal["apns", "fcm", "webpush"]
EnvironmentName = Literal["production", "sandbox"]
TokenKindName = Literal[
    "device", "installation", "voip", "live_activity_start", "live_activity_update", "push_to_talk", "widgets", "controls"
]


class Attributes(TypedDict, total=False):
    """What expressions of audiences may ask about a device."""

    locale: str
    time_zone: str
    app_version: str
    country: str
    tags: list[str]


class _DeviceRequired(TypedDict):
    provider: ProviderName


class DeviceRegistration(_DeviceRequired, total=False):
    """A device as an app describes it. APNs and FCM have a ``token``, a browser its ``subscription``."""

    token: str
    environment: EnvironmentName
    token_kind: TokenKindName
    user: str
    topics: list[str]
    attributes: Attributes
    badge: int
    subscription: Mapping[str, Any]
    webpush_p256dh: str
    webpush_auth: str
    application_server_key: str
    expires_at_ms: int


class ImportedDevice(DeviceRegistration, total=False):
    """A line of an import."""

    device: str
    #: When it registered: a device that registered later stays as it is, and so does one that registered then with the same token, whatever it has
    #: changed since, and one that was removed later, within the last hour. Without it, or in the future: now.
    registered_at_ms: int
    #: When it last logged in or out after that: a device that registered then, and did so last before this time, takes the line all the same.
    changed_at_ms: int


class _KnownRequired(TypedDict):
    device: str
    provider: ProviderName
    environment: EnvironmentName
    token: str
    token_kind: TokenKindName
    user: str | None
    attributes: Attributes
    topics: list[str]
    badge: int
    registered_at_ms: int
    seen_at_ms: int


class Device(_KnownRequired, total=False):
    """A device as Apus knows it. ``token`` is a digest."""

    displaced_device: str
    activities: list[dict[str, Any]]


class DevicePatch(TypedDict, total=False):
    """What may be changed in a device. None removes."""

    user: str | None
    badge: int | None
    attributes: Mapping[str, Any] | None


class _AnswerRequired(TypedDict):
    line: int
    status: int


class ImportAnswer(_AnswerRequired, total=False):
    """What became of a line of an import: status 201 for a new device, 200 for another, or the status of a problem and what is wrong."""

    device: str
    type: str
    detail: str
    errors: list[dict[str, str]]


#: The most times that a request is made when the service asks to come back, or does not answer.
ATTEMPTS_MAX = 5
#: The waits between two attempts without a `Retry-After`, in seconds: doubled from the first to the last.
BACKOFF_MIN, BACKOFF_MAX = 0.1, 5.0
#: The longest `Retry-After` that is waited for, in seconds; a longer one is the caller's to wait for.
RETRY_AFTER_MAX = 30.0
#: The most lines, and bytes of lines, that a request of an import has; a longer line goes by itself, and is refused.
IMPORT_LINES_MAX, IMPORT_BYTES_MAX = 5_000, 4 * 1_048_576


@dataclass(frozen=True)
class _Request:
    """A request. Most may be repeated without an answer, since the API's changes are idempotent."""

    method: str
    path: str
    body: bytes | None = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True

    def may_be_repeated(self, answer: httpx.Response | None) -> bool:
        """Returns whether another attempt does no harm: always, or when the service says that it has done nothing.

        A 503 does not say that: a change that is made, but that no replica has yet, is answered with it.
        """
        return self.is_repeatable or (answer is not None and answer.status_code == 429)

    @property
    def all_headers(self) -> dict[str, str]:
        types = {"content-type": self.media_type} if self.body is not None else {}
        return {"accept": "application/json", **types, **self.headers}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _segment(text: str) -> str:
    """Returns a part of a path as it stands in one."""
    if text in ("", ".", ".."):
        raise RegistrationError(f"{text!r} is no id of a device, user, topic or activity")
    return quote(text, safe="")


class _Requests:
    """Builds the requests of one app."""

    def __init__(self, app: str) -> None:
        self.root = f"/v1/apps/{_segment(app)}"

    def device(self, device: str) -> str:
        return f"{self.root}/devices/{_segment(device)}"

    def put_device(self, device: str, registration: DeviceRegistration, only_new: bool) -> _Request:
        headers = {"if-none-match": "*"} if only_new else {}
        return _Request("PUT", self.device(device), _json(registration), headers=headers, is_repeatable=not only_new)

    def change_device(self, device: str, patch: DevicePatch) -> _Request:
        return _Request("PATCH", self.device(device), _json(patch), "application/merge-patch+json")

    def topics(self, device: str) -> str:
        return f"{self.device(device)}/topics"

    def topic(self, device: str, topic: str) -> str:
        return f"{self.topics(device)}/{_segment(topic)}"

    def change_topics(self, device: str, subscribe: Sequence[str], unsubscribe: Sequence[str]) -> _Request:
        change = {"subscribe": list(subscribe), "unsubscribe": list(unsubscribe)}
        return _Request("POST", self.topics(device), _json({name: topics for name, topics in change.items() if topics}))

    def activity(self, device: str, activity: str) -> str:
        return f"{self.device(device)}/activities/{_segment(activity)}"

    def put_activity(self, device: str, activity: str, kind: str, token: str, expires_at_ms: int | None) -> _Request:
        body: dict[str, Any] = {"kind": kind, "token": token}
        if expires_at_ms is not None:
            body["expires_at_ms"] = expires_at_ms
        return _Request("PUT", self.activity(device, activity), _json(body))

    def test(self, device: str, title: str | None, body: str | None) -> _Request:
        words = {name: text for name, text in (("title", title), ("body", body)) if text is not None}
        return _Request("POST", f"{self.device(device)}/test", _json(words), is_repeatable=False)

    def user(self, user: str) -> str:
        return f"{self.root}/users/{_segment(user)}"

    def user_device(self, user: str, device: str) -> str:
        return f"{self.user(user)}/devices/{_segment(device)}"

    def import_lines(self, lines: bytes) -> _Request:
        media_type = "application/x-ndjson"
        return _Request("POST", f"{self.root}/devices:import", lines, media_type, headers={"accept": media_type})


def _decoded(answer: httpx.Response, text: bytes) -> Any:
    """Reads JSON of an answer; None for nothing.

    :raises RegistrationError: when it is none, because another service has answered.
    """
    try:
        return json.loads(text) if text else None
    except ValueError:
        words = f"{answer.status_code}: an answer at {answer.url} is no JSON: give the address of apus-registration as url"
        raise RegistrationError(words, answer.status_code) from None


def _problem(answer: httpx.Response, request: _Request) -> RegistrationError:
    if answer.has_redirect_location:
        # The address without the path that every client adds.
        location = str(answer.url.join(answer.headers["location"])).removesuffix(request.path)
        words = f"{answer.status_code}: answers with a redirect to {location}: give that address as url"
        return RegistrationError(words, answer.status_code)
    try:
        problem = json.loads(answer.content)
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    detail = str(problem.get("detail") or problem.get("title") or answer.reason_phrase)
    parts = [f"{each.get('pointer')} {each.get('detail')}" for each in problem.get("errors", [])]
    cure = {
        401: ". Make a key with `apus key create`, and give it as key=",
        403: ". The key's role may not do that: register is for devices, publish for sends, admin for both",
    }.get(answer.status_code, "")
    return RegistrationError(f"{answer.status_code}: {'; '.join([detail, *parts])}{cure}", answer.status_code, problem)


def _unreachable(error: httpx.HTTPError | None, url: str) -> RegistrationError:
    return RegistrationError(f"apus-registration does not answer at {url}: {error or type(error).__name__}")


def _wait(attempt: int, answer: httpx.Response | None) -> float | None:
    """Returns how long to wait before the next attempt; None when there is to be none."""
    if attempt >= ATTEMPTS_MAX:
        return None
    if answer is None:
        return float(min(BACKOFF_MAX, BACKOFF_MIN * 2 ** (attempt - 1))) * (0.5 + random.random() / 2)
    if answer.status_code not in (429, 502, 503, 504):
        return None
    asked = answer.headers.get("retry-after", "")
    if asked.isdigit():
        return float(asked) if float(asked) <= RETRY_AFTER_MAX else None
    return float(min(BACKOFF_MAX, BACKOFF_MIN * 2 ** (attempt - 1))) * (0.5 + random.random() / 2)


def _import_parts(devices: Iterable[ImportedDevice]) -> Iterator[tuple[int, bytes]]:
    """Yields the bodies of the requests of an import, each with the number of lines before it."""
    before, lines, size = 0, list[bytes](), 0
    for device in devices:
        line = _json(device) + b"\n"
        if lines and (len(lines) == IMPORT_LINES_MAX or size + len(line) > IMPORT_BYTES_MAX):
            yield before, b"".join(lines)
            before, lines, size = before + len(lines), [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield before, b"".join(lines)


def _import_answers(answer: httpx.Response, before: int) -> Iterator[ImportAnswer]:
    """Yields the answers of one request of an import, numbered as the lines of the whole import."""
    for line in answer.content.splitlines():
        known: ImportAnswer = _decoded(answer, line)
        known["line"] += before
        yield known


class _Client:
    """What both clients share."""

    def __init__(self, url: str, *, app: str, key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise RegistrationError(f"{url} is no address: it must begin with http:// or https://")
        self._url = url.rstrip("/")
        self._requests = _Requests(app)
        self._headers = {"authorization": f"Bearer {key}", "user-agent": "apus-push"}


class RegistrationClient(_Client):
    """Keeps the devices of an app: their tokens, users, topics and attributes.

    ::

        with RegistrationClient("http://127.0.0.1:8180", app="demo", key=key) as devices:
            devices.put_device("my-phone", {"provider": "fcm", "token": "…", "user": "ada"})
            devices.subscribe("my-phone", "news")

    A request that the service cannot take now, or that gets no answer, is made again, five times at most. A test notification, and a
    registration that is to create a device, are made again only after a 429: after another error they may have taken effect.
    """

    def __init__(self, url: str = "http://127.0.0.1:8180", *, app: str, key: str, timeout: float = 10.0, **options: Any) -> None:
        """Creates a client.

        :param key: an API key, which ``apus key create --role register`` makes, or the token of an app's user.
        :param timeout: how long connecting and each part of an answer may take, in seconds.
        :param options: options of ``httpx.Client``, such as ``verify`` with an ``ssl.SSLContext`` for an authority of your own.
        """
        super().__init__(url, app=app, key=key)
        self._http = httpx.Client(base_url=self._url, headers=self._headers, timeout=timeout, **options)

    def __enter__(self) -> RegistrationClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _call(self, request: _Request) -> Any:
        answer = self._ask(request)
        return _decoded(answer, answer.content)

    def _ask(self, request: _Request) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            answer: httpx.Response | None = None
            failure: httpx.HTTPError | None = None
            try:
                answer = self._http.request(request.method, request.path, content=request.body, headers=request.all_headers)
            except httpx.HTTPError as error:
                failure = error
            if answer is not None and answer.is_success:
                return answer
            wait = _wait(attempt, answer) if request.may_be_repeated(answer) else None
            if wait is None:
                raise _problem(answer, request) if answer is not None else _unreachable(failure, self._url)
            time.sleep(wait)

    def put_device(self, device: str, registration: DeviceRegistration, *, only_new: bool = False) -> Device:
        """Creates or replaces a device. Topics and attributes stay when none are given; the user is replaced, also by nobody.

        :param only_new: refuses to replace one that is there, with status 412. After an error without a status, or of 500 and more, the device
            may have been created.
        """
        known: Device = self._call(self._requests.put_device(device, registration, only_new))
        return known

    def device(self, device: str) -> Device | None:
        """Returns a device; None when it is not there."""
        try:
            known: Device = self._call(_Request("GET", self._requests.device(device)))
        except RegistrationError as error:
            if error.status == 404:
                return None
            raise
        return known

    def change_device(self, device: str, patch: DevicePatch) -> Device:
        """Changes a part of a device. None removes a value."""
        known: Device = self._call(self._requests.change_device(device, patch))
        return known

    def delete_device(self, device: str) -> None:
        """Forgets a device."""
        self._call(_Request("DELETE", self._requests.device(device)))

    def topics(self, device: str) -> list[str]:
        """Returns the topics that a device is in."""
        topics: list[str] = self._call(_Request("GET", self._requests.topics(device)))["topics"]
        return topics

    def set_topics(self, device: str, topics: Sequence[str]) -> list[str]:
        """Replaces all topics of a device."""
        left: list[str] = self._call(_Request("PUT", self._requests.topics(device), _json({"topics": list(topics)})))["topics"]
        return left

    def change_topics(self, device: str, *, subscribe: Sequence[str] = (), unsubscribe: Sequence[str] = ()) -> list[str]:
        """Changes many topics of a device at once, and returns all that it is in."""
        left: list[str] = self._call(self._requests.change_topics(device, subscribe, unsubscribe))["topics"]
        return left

    def subscribe(self, device: str, topic: str) -> None:
        """Puts a device into a topic."""
        self._call(_Request("PUT", self._requests.topic(device, topic)))

    def unsubscribe(self, device: str, topic: str) -> None:
        """Takes a device out of a topic."""
        self._call(_Request("DELETE", self._requests.topic(device, topic)))

    def put_activity(
        self,
        device: str,
        activity: str,
        *,
        kind: Literal["live_activity_start", "live_activity_update"],
        token: str,
        expires_at_ms: int | None = None,
    ) -> None:
        """Keeps the token of a Live Activity for a time."""
        self._call(self._requests.put_activity(device, activity, kind, token, expires_at_ms))

    def delete_activity(self, device: str, activity: str) -> None:
        """Forgets the token of a Live Activity."""
        self._call(_Request("DELETE", self._requests.activity(device, activity)))

    def test(self, device: str, *, title: str | None = None, body: str | None = None) -> str:
        """Sends a test notification to a device, and returns the send's id. Not repeated when there is no answer."""
        return str(self._call(self._requests.test(device, title, body))["send"])

    def user_devices(self, user: str) -> list[Device]:
        """Returns a user's devices."""
        devices: list[Device] = self._call(_Request("GET", f"{self._requests.user(user)}/devices"))["devices"]
        return devices

    def log_in(self, user: str, device: str) -> None:
        """Gives a device to a user."""
        self._call(_Request("PUT", self._requests.user_device(user, device)))

    def log_out(self, user: str, device: str) -> None:
        """Takes a device from a user."""
        self._call(_Request("DELETE", self._requests.user_device(user, device)))

    def delete_user(self, user: str) -> None:
        """Forgets a user: every device, and all that is known of them."""
        self._call(_Request("DELETE", self._requests.user(user)))

    def import_devices(self, devices: Iterable[ImportedDevice]) -> Iterator[ImportAnswer]:
        """Registers many devices, and yields what became of each, in their order.

        They go out in requests of 5,000 lines and 4 MiB at most, each when the answers of the one before it were taken. Importing again is safe:
        lines with ``registered_at_ms`` put nothing over what was registered then or later, unless ``changed_at_ms`` is later than the device's last
        log-in or log-out; those without it are of now. Devices that were removed
        more than an hour ago come back: leave out users who were forgotten since.
        """
        for before, lines in _import_parts(devices):
            yield from _import_answers(self._ask(self._requests.import_lines(lines)), before)


class AsyncRegistrationClient(_Client):
    """Keeps the devices of an app, for asyncio: the methods of ``RegistrationClient``, to be awaited."""

    def __init__(self, url: str = "http://127.0.0.1:8180", *, app: str, key: str, timeout: float = 10.0, **options: Any) -> None:
        """Creates a client, as ``RegistrationClient`` does, with options of ``httpx.AsyncClient``."""
        super().__init__(url, app=app, key=key)
        self._http = httpx.AsyncClient(base_url=self._url, headers=self._headers, timeout=timeout, **options)

    async def __aenter__(self) -> AsyncRegistrationClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _call(self, request: _Request) -> Any:
        answer = await self._ask(request)
        return _decoded(answer, answer.content)

    async def _ask(self, request: _Request) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            answer: httpx.Response | None = None
            failure: httpx.HTTPError | None = None
            try:
                answer = await self._http.request(request.method, request.path, content=request.body, headers=request.all_headers)
            except httpx.HTTPError as error:
                failure = error
            if answer is not None and answer.is_success:
                return answer
            wait = _wait(attempt, answer) if request.may_be_repeated(answer) else None
            if wait is None:
                raise _problem(answer, request) if answer is not None else _unreachable(failure, self._url)
            await asyncio.sleep(wait)

    async def put_device(self, device: str, registration: DeviceRegistration, *, only_new: bool = False) -> Device:
        """Creates or replaces a device."""
        known: Device = await self._call(self._requests.put_device(device, registration, only_new))
        return known

    async def device(self, device: str) -> Device | None:
        """Returns a device; None when it is not there."""
        try:
            known: Device = await self._call(_Request("GET", self._requests.device(device)))
        except RegistrationError as error:
            if error.status == 404:
                return None
            raise
        return known

    async def change_device(self, device: str, patch: DevicePatch) -> Device:
        """Changes a part of a device. None removes a value."""
        known: Device = await self._call(self._requests.change_device(device, patch))
        return known

    async def delete_device(self, device: str) -> None:
        """Forgets a device."""
        await self._call(_Request("DELETE", self._requests.device(device)))

    async def topics(self, device: str) -> list[str]:
        """Returns the topics that a device is in."""
        topics: list[str] = (await self._call(_Request("GET", self._requests.topics(device))))["topics"]
        return topics

    async def set_topics(self, device: str, topics: Sequence[str]) -> list[str]:
        """Replaces all topics of a device."""
        request = _Request("PUT", self._requests.topics(device), _json({"topics": list(topics)}))
        left: list[str] = (await self._call(request))["topics"]
        return left

    async def change_topics(self, device: str, *, subscribe: Sequence[str] = (), unsubscribe: Sequence[str] = ()) -> list[str]:
        """Changes many topics of a device at once, and returns all that it is in."""
        left: list[str] = (await self._call(self._requests.change_topics(device, subscribe, unsubscribe)))["topics"]
        return left

    async def subscribe(self, device: str, topic: str) -> None:
        """Puts a device into a topic."""
        await self._call(_Request("PUT", self._requests.topic(device, topic)))

    async def unsubscribe(self, device: str, topic: str) -> None:
        """Takes a device out of a topic."""
        await self._call(_Request("DELETE", self._requests.topic(device, topic)))

    async def put_activity(
        self,
        device: str,
        activity: str,
        *,
        kind: Literal["live_activity_start", "live_activity_update"],
        token: str,
        expires_at_ms: int | None = None,
    ) -> None:
        """Keeps the token of a Live Activity for a time."""
        await self._call(self._requests.put_activity(device, activity, kind, token, expires_at_ms))

    async def delete_activity(self, device: str, activity: str) -> None:
        """Forgets the token of a Live Activity."""
        await self._call(_Request("DELETE", self._requests.activity(device, activity)))

    async def test(self, device: str, *, title: str | None = None, body: str | None = None) -> str:
        """Sends a test notification to a device, and returns the send's id. Not repeated when there is no answer."""
        return str((await self._call(self._requests.test(device, title, body)))["send"])

    async def user_devices(self, user: str) -> list[Device]:
        """Returns a user's devices."""
        devices: list[Device] = (await self._call(_Request("GET", f"{self._requests.user(user)}/devices")))["devices"]
        return devices

    async def log_in(self, user: str, device: str) -> None:
        """Gives a device to a user."""
        await self._call(_Request("PUT", self._requests.user_device(user, device)))

    async def log_out(self, user: str, device: str) -> None:
        """Takes a device from a user."""
        await self._call(_Request("DELETE", self._requests.user_device(user, device)))

    async def delete_user(self, user: str) -> None:
        """Forgets a user: every device, and all that is known of them."""
        await self._call(_Request("DELETE", self._requests.user(user)))

    async def import_devices(self, devices: Iterable[ImportedDevice]) -> AsyncIterator[ImportAnswer]:
        """Registers many devices, and yields what became of each, as ``RegistrationClient.import_devices`` does."""
        for before, lines in _import_parts(devices):
            for known in _import_answers(await self._ask(self._requests.import_lines(lines)), before):
                yield known
