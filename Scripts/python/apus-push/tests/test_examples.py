"""The examples of the articles in JavaScript and Java, where their toolchains are there, against the real services."""

from __future__ import annotations

import json
import re
import shutil
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from apus_push import Publisher, RegistrationClient
from installation import APP, ROOT, eventually
from test_services import Case, to

SECRET = "a secret of at least thirty-two bytes"


def example(article: str, language: str, place: int = 0) -> str:
    """Returns a block of code of an article."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", (ROOT / article).read_text(), re.DOTALL)
    return blocks[place]


PUBLISHING = "Sources/ApusPublisher/ApusPublisher.docc/Publishing.md"
HTTP_API = "Sources/ApusRegistration/ApusRegistration.docc/HTTPAPI.md"


class Receiver(BaseHTTPRequestHandler):
    """Keeps what feedback posts."""

    posted: list[tuple[dict[str, str], bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.posted.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class ExampleTests(Case):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        server = HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.stack.callback(server.server_close)
        cls.stack.callback(server.shutdown)
        cls.installation.simulate()
        secret = cls.installation.folder / "webhook-secret"
        secret.write_text(SECRET)
        with open(cls.installation.folder / "apus.yaml", "a") as file:
            file.write(f"feedback: {{webhook: {{url: 'http://127.0.0.1:{server.server_port}/', secret_file: {secret}}}}}\n")
        cls.installation.serve("dispatcher", "feedback", "registration")
        cls.admin = cls.key()
        with RegistrationClient(cls.installation.api, app=APP, key=cls.admin) as devices:
            devices.put_device("phone", {"provider": "fcm", "token": "token", "user": "ada"})

    def write(self, name: str, text: str) -> str:
        path: Path = self.installation.folder / name
        path.write_text(text)
        return str(path)

    def webhook(self) -> tuple[dict[str, str], str]:
        """Returns the headers of a webhook that feedback has posted, and the file of its body."""
        with Publisher(self.installation.url) as publisher:
            send = publisher.publish(to("ada")).send
        ((headers, body), *_) = eventually(lambda: [each for each in Receiver.posted if send.encode() in each[1]])
        path: Path = self.installation.folder / "body"
        path.write_bytes(body)
        return headers, str(path)

    COMMAND = json.dumps({"target": {"users": ["ada"]}, "notification": {"title": "Your order is on its way"}})
    WRONG = json.dumps({"target": {"users": ["ada"]}, "notfication": {}})

    def test_the_webhook_is_genuine_by_python(self) -> None:
        headers, body = self.webhook()
        program = example(PUBLISHING, "python", -1) + (
            "import json, sys\n"
            "print(is_genuine(sys.argv[1].encode(), json.loads(sys.argv[2]), open(sys.argv[3], 'rb').read()))\n"
        )
        for secret, genuine in ((SECRET, "True"), ("another", "False")):
            self.assertEqual(self.installation.run("python3", "-c", program, secret, json.dumps(headers), body).strip(), genuine)

    @unittest.skipUnless(shutil.which("node"), "node is not there")
    def test_javascript(self) -> None:
        self.write("webhook.mjs", example(PUBLISHING, "javascript"))
        main = self.write(
            "genuine.mjs",
            "import { isGenuine } from './webhook.mjs'; import { readFileSync } from 'node:fs';\n"
            "const [secret, headers, file] = process.argv.slice(2);\n"
            "console.log(isGenuine(secret, JSON.parse(headers), readFileSync(file)));\n",
        )
        headers, body = self.webhook()
        for secret, genuine in ((SECRET, "true"), ("another", "false")):
            self.assertEqual(self.installation.run("node", main, secret, json.dumps(headers), body).strip(), genuine)
        self.write("send.mjs", example(HTTP_API, "javascript"))
        main = self.write(
            "publish.mjs",
            "import { send } from './send.mjs';\n"
            "console.log(await send(...process.argv.slice(2, 5), JSON.parse(process.argv[5]), 'js'));\n",
        )
        words = ("node", main, self.installation.api, APP, self.admin)
        first = self.installation.run(*words, self.COMMAND)
        self.assertEqual(self.installation.run(*words, self.COMMAND), first)
        with self.assertRaisesRegex(AssertionError, "did you mean notification"):
            self.installation.run(*words, self.WRONG)

    @unittest.skipUnless(shutil.which("javac"), "javac is not there")
    def test_java(self) -> None:
        self.write("Webhook.java", example(PUBLISHING, "java"))
        self.write("Apus.java", example(HTTP_API, "java"))
        self.write(
            "Main.java",
            """
            import java.nio.file.*;
            class Main {
                public static void main(String[] words) throws Exception {
                    if (words.length == 5)
                        System.out.println(
                            Webhook.isGenuine(words[1].getBytes(), words[2], words[3], words[4], Files.readAllBytes(Path.of(words[0]))));
                    else System.out.println(Apus.send(words[0], words[1], words[2], words[3], "java"));
                }
            }
            """,
        )
        folder = str(self.installation.folder)
        self.installation.run("javac", "-Xlint:all", "-Werror", "-d", folder, "Webhook.java", "Apus.java", "Main.java")
        headers, body = self.webhook()
        parts = [headers[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")]
        for secret, genuine in ((SECRET, "true"), ("another", "false")):
            self.assertEqual(self.installation.run("java", "-cp", folder, "Main", body, secret, *parts).strip(), genuine)
        words = ("java", "-cp", folder, "Main", self.installation.api, APP, self.admin)
        first, second = (json.loads(self.installation.run(*words, self.COMMAND)) for _ in range(2))
        self.assertEqual((second["send"], second["duplicate"]), (first["send"], True))
        with self.assertRaisesRegex(AssertionError, "did you mean notification"):
            self.installation.run(*words, self.WRONG)


if __name__ == "__main__":
    unittest.main()
