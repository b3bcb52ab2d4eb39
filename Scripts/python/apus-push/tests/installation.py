"""An installation of Apus for the tests: Redis, the simulator, and the three services, all of them the real programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, TypeVar

Value = TypeVar("Value")

ROOT = Path(__file__).resolve().parents[4]
#: The folder of the services' programs.
PROGRAMS = Path(os.environ.get("APUS_PROGRAMS", ROOT / ".build/debug"))
APP = "demo"


def free_port() -> int:
    """Returns a port on which nobody listens. A node of a Redis Cluster also listens on one 10,000 above."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            if port + 10_000 > 65_535:
                continue
            try:
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


def eventually(condition: Callable[[], Value], within: float = 60) -> Value:
    """Returns the first true value of a condition."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("it did not become true")
        time.sleep(0.02)


def own_environment() -> dict[str, str]:
    """Returns the variables without settings of another installation, and without proxies."""
    return {name: value for name, value in os.environ.items() if not name.startswith("APUS_") and "proxy" not in name.lower()}


class Redis:
    """A redis-server in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.folder = folder / f"redis-{self.port}"
        self.folder.mkdir()
        self.options = options
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = ["redis-server", "--port", str(self.port), "--dir", str(self.folder), "--save", "", "--logfile", "log"]
        self.process = subprocess.Popen([*words, *self.options], stdout=subprocess.DEVNULL)
        eventually(lambda: self.cli("ping", check=False) == "PONG")

    def cli(self, *words: str, check: bool = True) -> str:
        run = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True, check=check)
        return run.stdout.strip()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait()


class Sentinels:
    """A master with a replica, and three Sentinels that watch them."""

    name = "mymaster"
    password = "watch"

    def __init__(self, folder: Path) -> None:
        self.master = Redis(folder, "--appendonly", "yes")
        self.replica = Redis(folder, "--replicaof", "127.0.0.1", str(self.master.port))
        eventually(lambda: "master_link_status:up" in self.replica.cli("info", "replication"))
        self.ports = [free_port() for _ in range(3)]
        self.processes: list[subprocess.Popen[bytes]] = []
        for port in self.ports:
            file = folder / f"sentinel-{port}.conf"
            file.write_text(
                f"""\
port {port}
dir {folder}
logfile sentinel-{port}.log
requirepass {self.password}
sentinel sentinel-pass {self.password}
sentinel monitor {self.name} 127.0.0.1 {self.master.port} 2
sentinel down-after-milliseconds {self.name} 1000
sentinel failover-timeout {self.name} 10000
"""
            )
            self.processes.append(subprocess.Popen(["redis-server", str(file), "--sentinel"], stdout=subprocess.DEVNULL))
        for port in self.ports:
            eventually(lambda: "slaves=1,sentinels=3" in self.ask(port, "info", "sentinel"))
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"redis+sentinel://{places}/{self.name}?sentinel_password={self.password}"

    def ask(self, port: int, *words: str) -> str:
        run = ["redis-cli", "-p", str(port), "--no-auth-warning", "-a", self.password, *words]
        return subprocess.run(run, capture_output=True, text=True).stdout

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for server in (self.master, self.replica):
            if server.process.poll() is None:
                server.stop(signal.SIGKILL)


@contextmanager
def sentinels() -> Iterator[Sentinels]:
    """Makes a master, a replica and Sentinels for the time of a block, with Apus' functions."""
    with tempfile.TemporaryDirectory(prefix="apus-python-") as folder:
        made = Sentinels(Path(folder))
        try:
            names = {**own_environment(), "APUS_REDIS_URL": made.url}
            subprocess.run([str(PROGRAMS / "apus"), "init"], env=names, check=True, capture_output=True, cwd=folder)
            yield made
        finally:
            made.stop()


class Installation:
    """Redis, or a Redis Cluster, with Apus' functions; the simulator and services that are started when they are asked for."""

    def __init__(self, folder: Path, masters: int = 1) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000") if masters > 1 else ()
        persistence = ("--appendonly", "yes", "--maxmemory-policy", "noeviction")
        self.servers = [Redis(folder, *cluster, *persistence) for _ in range(masters)]
        self.redis = self.servers[0]
        self.url = self.redis.url
        if masters > 1:
            places = [f"127.0.0.1:{server.port}" for server in self.servers]
            self.redis.cli("--cluster", "create", *places, "--cluster-yes")
            for server in self.servers:
                eventually(lambda: "cluster_state:ok" in server.cli("cluster", "info"))
            self.url = f"redis+cluster://{places[0]},{places[1]}"
        self.apus("init")

    def run(self, *words: str, **environment: str) -> str:
        names = {**own_environment(), "APUS_REDIS_URL": self.url, **environment}
        run = subprocess.run(list(words), env=names, capture_output=True, text=True, cwd=self.folder)
        if run.returncode != 0:
            raise AssertionError(f"{words}: {run.stdout}{run.stderr}")
        return run.stdout

    def apus(self, *words: str) -> str:
        """Runs the operator's program."""
        return self.run(str(PROGRAMS / "apus"), *words)

    def spawn(self, program: str, *words: str, ready: Path) -> Path:
        """Starts a program and waits for the file that it writes when it is ready."""
        log = open(self.folder / f"{program}.log", "wb")
        words = (str(PROGRAMS / program), *words)
        process = subprocess.Popen(words, env=own_environment(), stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        log.close()

        def is_ready() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"{program} ended: {(self.folder / f'{program}.log').read_text()[-2000:]}")
            return ready.exists() and ready.stat().st_size > 0

        eventually(is_ready)
        return ready

    def simulate(self) -> None:
        """Starts the simulator, and writes the services' configuration."""
        folder = self.folder / "simulator"
        self.spawn("apus-lab", "simulate", "--folder", str(folder), ready=folder / "ports.json")
        ports = json.loads((folder / "ports.json").read_text())
        self.control = ports["control_url"]
        authority = f"ca_file: {folder}/ca.pem"
        (self.folder / "apus.yaml").write_text(
            f"""\
redis: {{url: "{self.url}"}}
event_loops: 1
log: {{format: json}}
apps:
  {APP}:
    apns: {{team_id: APUSTEAM01, key_id: APUSKEY001, key_file: {folder}/AuthKey_APUSKEY001.p8, topic: example.apus.demo,
           host: 127.0.0.1, port: {ports["apns_port"]}, {authority}}}
    fcm: {{project_id: apus-demo, service_account_file: {folder}/demo-service-account.json,
          base_url: "https://127.0.0.1:{ports["fcm_port"]}", ramp: 0s, {authority}}}
"""
        )

    def serve(self, *services: str) -> None:
        """Starts services, and waits until each is ready."""
        for service in services:
            port_file, admin_file = (self.folder / f"{service}.{kind}.port" for kind in ("api", "admin"))
            (self.folder / f"{service}.yaml").write_text(
                (self.folder / "apus.yaml").read_text()
                + f"admin: {{listen: 127.0.0.1:0, port_file: {admin_file}}}\n"
                + (f"registration: {{listen: 127.0.0.1:0, port_file: {port_file}}}\n" if service == "registration" else "")
            )
            self.spawn(f"apus-{service}", "--config", str(self.folder / f"{service}.yaml"), ready=admin_file)
            admin = f"http://127.0.0.1:{admin_file.read_text().strip()}"

            def is_ready() -> bool:
                try:
                    return bool(get(f"{admin}/readyz").status == 200)
                except OSError:
                    return False

            eventually(is_ready)
            if service == "registration":
                self.api = f"http://127.0.0.1:{port_file.read_text().strip()}"

    def accepted(self) -> list[dict[str, Any]]:
        """Returns the lines of the simulator's ledger."""
        return [json.loads(line) for line in get(f"{self.control}/ledger").read().splitlines()]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        for server in self.servers:
            if server.process.poll() is None:
                server.stop(signal.SIGKILL)


def get(url: str) -> Any:
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10)


@contextmanager
def installation(masters: int = 1) -> Iterator[Installation]:
    """Makes an installation for the time of a block."""
    folder = Path(tempfile.mkdtemp(prefix="apus-python-"))
    made: Installation | None = None
    try:
        made = Installation(folder, masters)
        yield made
    finally:
        if made is not None:
            made.stop()
        shutil.rmtree(folder, ignore_errors=True)
