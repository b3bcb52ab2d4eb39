"""The Helm chart, rendered by Helm's own engine: what it makes is compared with Kubernetes' schemas, and with what the services are.

It was never installed in a cluster; these tests are all that is known of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from helm_python import Chart, HelmError, lint, package

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "Scripts/deploy/helm/apus"
PROGRAMS = Path(os.environ.get("APUS_PROGRAMS", ROOT / ".build/debug"))
#: The oldest and the newest version of Kubernetes whose schemas there are.
VERSIONS = ("1.25", "1.37")
SERVICES = {"registration": 9101, "dispatcher": 9102, "feedback": 9103}

CONFIGURATION: dict[str, Any] = {
    "redis": {
        "url": "redis+cluster://redis-0.redis:6379,redis-1.redis:6379", "user": "apus", "password_file": "/run/secrets/apus/redis-password",
    },
    "apps": {
        "demo": {"fcm": {"project_id": "demo-1", "service_account_file": "/run/secrets/apus/demo.json"}},
    },
}
LEAST: dict[str, Any] = {"configuration": CONFIGURATION}
ALL: dict[str, Any] = {
    "configuration": CONFIGURATION,
    "image": {"repository": "registry.example/apus", "tag": "1"},
    "imagePullSecrets": [{"name": "pull"}],
    "secrets": {"registration": ["redis", "tls"], "dispatcher": ["redis", "providers"], "feedback": ["redis"], "console": ["redis-operator", "providers"], "init": ["redis-admin"]},
    "console": {"enabled": True, "publicURL": "https://push.example", "redisUser": "apus-operator", "nodeSelector": {"disk": "ssd"}},
    "drainTimeoutSeconds": 40,
    "registration": {"redisUser": "apus-registration", "service": {"type": "LoadBalancer", "annotations": {"a": "b"}}, "nodeSelector": {"disk": "ssd"}},
    "dispatcher": {"redisUser": "apus-dispatcher", "tolerations": [{"key": "push", "operator": "Exists"}], "priorityClassName": "high"},
    "init": {"redisUser": "admin"},
    "autoscaling": {"enabled": True, "targetWaitSeconds": 2.5},
    "monitoring": {"enabled": True, "labels": {"release": "stack"}, "runbookURL": "https://runbooks.example/apus/"},
    "networkPolicy": {
        "clients": [{"podSelector": {}}],
        "console": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "redis": {"peers": [{"podSelector": {"matchLabels": {"app": "redis"}}}], "ports": [6379, 16379]},
        "egress": [{"ports": [{"port": 4318}]}],
    },
}


def render(values: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Returns what the chart makes, by kind and name."""
    with Chart.load(CHART) as chart:
        files = chart.render(values, name="apus", namespace="push", is_install=True)
    made: dict[tuple[str, str], Any] = {}
    for path, text in files.items():
        if path.endswith(".txt"):
            continue
        for document in yaml.safe_load_all(text):
            if document:
                key = (document["kind"], document["metadata"]["name"])
                assert key not in made, f"{key} is made twice"
                made[key] = document
    return made


def containers(made: dict[tuple[str, str], Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Returns the name, the pod and the container of every workload."""
    pods = [(name, each["spec"]["template"]["spec"]) for (kind, name), each in made.items() if kind in ("Deployment", "Job")]
    return [(name, pod, container) for name, pod in pods for container in pod["containers"]]


def service_account() -> str:
    """Returns an account as Firebase writes it, with a key that was made now: the check signs with it."""
    key = subprocess.run(
        ["openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        capture_output=True, text=True, check=True,
    )
    return json.dumps({
        "type": "service_account", "project_id": "demo-12345", "private_key_id": "1", "private_key": key.stdout,
        "client_email": "apus@demo-12345.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token",
    })


class ChartTests(unittest.TestCase):
    def test_helm_finds_nothing_to_complain_about(self) -> None:
        for values in (LEAST, ALL):
            report = lint(CHART, values, strict=True, kube_version="v1.31.0")
            self.assertEqual([each for each in report["messages"] if each["severity"] > 1], [])
            self.assertEqual(report["errors"], [])

    def test_every_object_is_one_of_kubernetes(self) -> None:
        for values, count in ((LEAST, 17), (ALL, 23)):
            made = render(values)
            self.assertEqual(len(made), count, sorted(made))
            for key, each in made.items():
                if "." in each["apiVersion"].split("/")[0] and not each["apiVersion"].startswith(("policy", "networking.k8s.io")):
                    continue  # Definitions of others: below.
                for version in VERSIONS:
                    with self.subTest(key=key, version=version):
                        kubernetes_validate.validate(each, version, strict=True)

    def test_objects_belong_together(self) -> None:
        made = render(ALL)
        for service, port in SERVICES.items():
            pod = made["Deployment", f"apus-{service}"]["spec"]
            labels = pod["template"]["metadata"]["labels"]
            chosen = (("Service", f"apus-{service}-admin"), ("PodDisruptionBudget", f"apus-{service}"), ("NetworkPolicy", f"apus-{service}"))
            for kind, name in chosen:
                spec = made[kind, name]["spec"]
                selector = spec.get("podSelector", spec["selector"] if "selector" in spec else {})
                selector = selector.get("matchLabels", selector)
                self.assertEqual(selector, pod["selector"]["matchLabels"], (kind, name))
                self.assertLessEqual(selector.items(), labels.items())
            (container,) = pod["template"]["spec"]["containers"]
            self.assertIn({"name": "admin", "containerPort": port}, container["ports"])
            self.assertEqual(container["command"], [f"apus-{service}", "--config", "/etc/apus/apus.yaml"])
            self.assertEqual(made["Service", f"apus-{service}-admin"]["spec"]["ports"][0]["port"], port)
        api = made["Service", "apus-registration"]["spec"]
        self.assertEqual((api["ports"][0]["targetPort"], api["type"]), ("api", "LoadBalancer"))
        mounted = {each["name"] for _, pod, _ in containers(made) for each in pod.get("volumes", [])}
        self.assertEqual(mounted, {"configuration", "secrets"})

    def test_pods_may_do_nothing_but_use_sockets(self) -> None:
        for name, pod, container in containers(render(ALL)):
            with self.subTest(name=name):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(pod["automountServiceAccountToken"])
                context = container["securityContext"]
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                self.assertTrue(context["readOnlyRootFilesystem"])
                self.assertFalse(context["allowPrivilegeEscalation"])
                self.assertIn("memory", container["resources"]["limits"])
        # The user is that of the image.
        image = (ROOT / "Scripts/deploy/Containerfile").read_text()
        self.assertIn("\nUSER 10001\n", image)

    def test_registration_answers_503_before_the_kernel_ends_it(self) -> None:
        settings = (ROOT / "Sources/ApusRegistration/RegistrationSettings.swift").read_text()
        found = re.search(r'"registration.memory_limit",\s+default: (\d+) << 20,', settings)
        assert found
        (limit,) = [container["resources"]["limits"]["memory"] for name, _, container in containers(render(LEAST)) if name == "apus-registration"]
        # Its peak is a few per cent beyond memory_limit and its own size, by the article Benchmarks.
        self.assertGreaterEqual(int(limit.removesuffix("Mi")), int(found[1]) + 128)

    def test_pods_have_longer_than_a_drain_takes(self) -> None:
        for values, drain in ((LEAST, 25), (ALL, 40)):
            for name, pod, container in containers(render(values)):
                if name in ("apus-init", "apus-console"):
                    continue
                self.assertIn({"name": "APUS_DRAIN_TIMEOUT", "value": f"{drain}s"}, container["env"])
                before = int(container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])[1])
                # drain_timeout and five seconds, by the article Operations.
                self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], before + drain + 5 + 5, name)
        self.assertEqual(
            [container["lifecycle"] for name, _, container in containers(render(LEAST)) if name == "apus-registration"],
            [{"preStop": {"exec": {"command": ["sleep", "5"]}}}],
        )

    def test_probes_ask_what_the_services_answer(self) -> None:
        server = (ROOT / "Sources/ApusService/Admin/AdminServer.swift").read_text()
        served = set(re.findall(r'router\.get\("(/[a-z]+)"\)', server))
        made = render(ALL)
        asked = {
            container[probe]["httpGet"]["path"]
            for name, _, container in containers(made)
            if name not in ("apus-init", "apus-console")
            for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        self.assertEqual(asked, {"/startupz", "/healthz", "/readyz"})
        self.assertLessEqual(asked | {made["ServiceMonitor", "apus"]["spec"]["endpoints"][0]["path"]}, served)

    def test_probes_monitor_and_autoscaler_speak_https_where_the_admin_ports_do(self) -> None:
        values = {
            **ALL,
            "configuration": {**CONFIGURATION, "admin": {"tls": {"certificate_file": "/run/secrets/apus/admin.pem"}}},
            "monitoring": {**ALL["monitoring"], "tlsConfig": {"serverName": "apus", "ca": {"secret": {"name": "admin", "key": "ca.pem"}}}},
            "autoscaling": {**ALL["autoscaling"], "triggerAuthentication": "apus-admin"},
        }
        for given, scheme in ((ALL, None), (values, "HTTPS")):
            made = render(given)
            asked = [
                container[probe]["httpGet"].get("scheme")
                for name, _, container in containers(made)
                if name not in ("apus-init", "apus-console")
                for probe in ("startupProbe", "livenessProbe", "readinessProbe")
            ]
            self.assertEqual(asked, [scheme] * 9)
            for key, each in made.items():
                if key[0] == "Deployment":
                    kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
        (endpoint,) = made["ServiceMonitor", "apus"]["spec"]["endpoints"]
        self.assertEqual((endpoint["scheme"], endpoint["tlsConfig"]), ("https", values["monitoring"]["tlsConfig"]))
        (trigger,) = made["ScaledObject", "apus-dispatcher"]["spec"]["triggers"]
        self.assertEqual(trigger["metadata"]["url"], "https://apus-feedback-admin.push.svc:9103/scale")
        self.assertEqual((trigger["metadata"]["authMode"], trigger["authenticationRef"]), ("tls", {"name": "apus-admin"}))

    def test_each_service_has_its_own_secrets_as_files(self) -> None:
        pods = {name: pod for name, pod, _ in containers(render(ALL))}
        for service, names in ALL["secrets"].items():
            (volume,) = [each for each in pods[f"apus-{service}"]["volumes"] if each["name"] == "secrets"]
            self.assertEqual([each["secret"]["name"] for each in volume["projected"]["sources"]], names)
            self.assertEqual(volume["projected"]["defaultMode"], 0o440)
        for name, pod, container in containers(render(LEAST)):
            self.assertNotIn("secrets", [each["name"] for each in pod.get("volumes", [])], name)
        # No secret comes by the environment.
        self.assertFalse([name for name, _, container in containers(render(ALL)) for each in container["env"] if "valueFrom" in each])

    def test_each_service_logs_in_to_redis_as_its_own_user(self) -> None:
        def users(values: dict[str, Any]) -> dict[str, str]:
            return {
                name.removeprefix("apus-"): each["value"]
                for name, _, container in containers(render(values))
                for each in container["env"]
                if each["name"] == "APUS_REDIS_USER"
            }

        own = {"registration": "apus-registration", "dispatcher": "apus-dispatcher", "console": "apus-operator", "init": "admin"}
        self.assertEqual(users(ALL), own)
        # Only the job has no configuration to read its user from.
        self.assertEqual(users(LEAST), {"init": "apus"})

    def test_the_articles_commands_make_every_secret_that_its_values_name(self) -> None:
        article = (ROOT / "Sources/apus/apus.docc/Operations.md").read_text()
        found = re.search(r"```text\n# values.yaml\n(.*?)```.*?```shell\n(.*?)```", article, re.DOTALL)
        assert found
        values, commands = yaml.safe_load(found[1]), found[2]
        roles = re.search(r"^for role in (.*); do\n(.*?)^done\n", commands, re.DOTALL | re.MULTILINE)
        assert roles
        lines = [roles[2].replace("$role", role) for role in roles[1].split()]
        made = dict(re.findall(r"create secret generic (\S+) --namespace push --from-file=([a-z.-]+)", "".join(lines) + commands[roles.end():]))
        files = set(re.findall(r"/run/secrets/apus/([a-z.-]+)", yaml.safe_dump(values["configuration"])))
        needed = {name: {"redis-password"} for name in ("registration", "feedback", "init")} | {name: files for name in ("dispatcher", "console")}
        given = {name: {made[secret] for secret in secrets} for name, secrets in values["secrets"].items()}
        self.assertEqual(given, needed)
        self.assertEqual(set(made), {secret for secrets in values["secrets"].values() for secret in secrets})
        users = {name: values[name]["redisUser"] for name in values["secrets"]}
        self.assertEqual(users.pop("init"), re.findall("APUS_REDIS_USER=(.*?) ", commands)[0])
        self.assertEqual(set(users.values()), {f"apus-{role}" for role in re.findall("acl set ([a-z]+)", "".join(lines))})
        self.assertLess(commands.index("create namespace push"), commands.index("create secret"))
        kinds = [kind for kind, _ in render(values)]
        self.assertEqual(kinds.count("Deployment"), 4)

    def test_the_services_take_the_configuration(self) -> None:
        text = render(ALL)["ConfigMap", "apus"]["data"]["apus.yaml"]
        self.assertEqual(yaml.safe_load(text), CONFIGURATION)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "redis-password").write_text("anything")
            (Path(folder) / "demo.json").write_text(service_account())
            (Path(folder) / "apus.yaml").write_text(text.replace("/run/secrets/apus", folder))
            for name, _, container in containers(render(ALL)):
                if name == "apus-init":
                    continue
                environment = {each["name"]: each["value"] for each in container["env"]}
                run = subprocess.run(
                    [PROGRAMS / "apus", "config", "check", "--config", f"{folder}/apus.yaml"],
                    env={**environment, "PATH": os.environ["PATH"]}, capture_output=True, text=True,
                )
                self.assertEqual(run.returncode, 0, f"{name}: {run.stdout}{run.stderr}")

    def test_network_policies_open_only_what_is_used(self) -> None:
        made = render(ALL)

        def ports(rules: list[dict[str, Any]]) -> set[int]:
            return {each["port"] for rule in rules for each in rule["ports"]}

        specs = {name.removeprefix("apus-"): each["spec"] for (kind, name), each in made.items() if kind == "NetworkPolicy"}
        self.assertEqual(set(specs), {*SERVICES, "init", "console"})
        incoming = {name: ports(spec.get("ingress", [])) for name, spec in specs.items()}
        self.assertEqual(incoming, {"registration": {9101, 8180}, "dispatcher": {9102}, "feedback": {9103}, "init": set(), "console": {8190}})
        outgoing = {name: ports(spec["egress"]) for name, spec in specs.items()}
        rest = {53, 6379, 16379, 4318}
        self.assertEqual(outgoing, {"registration": rest, "dispatcher": rest | {443, 2197}, "feedback": rest, "init": rest, "console": rest})
        feedback = specs["feedback"]["ingress"][0]["from"]
        self.assertIn({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}, feedback)
        self.assertEqual(len(specs["dispatcher"]["ingress"][0]["from"]), 1)
        self.assertFalse(any(kind == "NetworkPolicy" for kind, _ in render({**LEAST, "networkPolicy": {"enabled": False}})))

    def test_network_policies_open_the_ports_of_the_address(self) -> None:
        def opened(url: str, **policy: Any) -> set[int]:
            redis = {**CONFIGURATION["redis"], "url": url}
            made = render({"configuration": {**CONFIGURATION, "redis": redis}, "networkPolicy": policy})
            specs = [each["spec"] for (kind, _), each in made.items() if kind == "NetworkPolicy"]
            (ports,) = {tuple(sorted({each["port"] for each in spec["egress"][1]["ports"]})) for spec in specs}
            return set(ports)

        for url, ports in (
            ("redis://redis:6379", {6379}),
            ("rediss://user:p%40ss@redis.example:16380?ca=/ca.pem", {16380}),
            ("redis://redis", {6379}),
            ("redis+cluster://a:7000,b:7001,c", {7000, 7001, 6379}),
            ("redis+sentinel://a:26379,b:26379,c/apus-master", {26379, 6379}),
            ("rediss+sentinel://user:a@b@[fd00::1]:5000,b/apus-master?sentinel_user=x:9", {5000, 26379, 6379}),
        ):
            with self.subTest(url=url):
                self.assertEqual(opened(url), ports)
        self.assertEqual(opened("redis+sentinel://a/m", redis={"ports": [26379, 6380]}), {26379, 6380})
        with self.assertRaises(HelmError) as caught:
            opened("redis+sentinel://a/m", redis={"ports": [6379]})
        self.assertIn("networkPolicy.redis.ports lacks 26379", str(caught.exception))

    def test_hooks_leave_nothing_behind(self) -> None:
        for values in (LEAST, ALL):
            hooks = [each for each in render(values).values() if "helm.sh/hook" in each["metadata"].get("annotations", {})]
            self.assertEqual(len(hooks), 2)
            for hook in hooks:
                self.assertIn("hook-succeeded", hook["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(","))

    def test_the_scaled_object_asks_feedback_for_one_number(self) -> None:
        made = render(ALL)
        scaled = made["ScaledObject", "apus-dispatcher"]
        spec = scaled["spec"]
        self.assertEqual(scaled["apiVersion"], "keda.sh/v1alpha1")
        self.assertEqual(
            set(spec), {"scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod", "fallback", "triggers"}
        )
        self.assertIn(("Deployment", spec["scaleTargetRef"]["name"]), made)
        self.assertNotIn("replicas", made["Deployment", "apus-dispatcher"]["spec"])
        self.assertEqual(render(LEAST)["Deployment", "apus-dispatcher"]["spec"]["replicas"], 2)
        self.assertLess(spec["minReplicaCount"], spec["maxReplicaCount"])
        (trigger,) = spec["triggers"]
        self.assertEqual((trigger["type"], trigger["metricType"]), ("metrics-api", "AverageValue"))
        metadata = trigger["metadata"]
        # Every value of a trigger is a string.
        self.assertEqual(
            metadata,
            {"url": "http://apus-feedback-admin.push.svc:9103/scale", "valueLocation": "oldest_waiting_seconds", "targetValue": "2.5"},
        )
        self.assertIn(("Service", "apus-feedback-admin"), made)
        source = (ROOT / "Sources/ApusInstallation/DispatchDemand.swift").read_text()
        self.assertIn(f'"{metadata["valueLocation"]}"', source)
        self.assertIn('pages.add("scale")', (ROOT / "Sources/ApusFeedback/Service/Feedback.swift").read_text())

    def test_the_monitor_scrapes_all_three_under_the_jobs_that_the_rules_expect(self) -> None:
        made = render(ALL)
        monitor = made["ServiceMonitor", "apus"]
        self.assertEqual(monitor["apiVersion"], "monitoring.coreos.com/v1")
        self.assertEqual(monitor["metadata"]["labels"]["release"], "stack")
        spec = monitor["spec"]
        self.assertEqual(set(spec), {"jobLabel", "selector", "endpoints"})
        (endpoint,) = spec["endpoints"]
        self.assertEqual(set(endpoint), {"port", "path", "interval", "honorLabels", "relabelings"})
        self.assertTrue(endpoint["honorLabels"])
        # The labels that the operator gives a target, and Prometheus adds an instance to.
        target = {"namespace", "service", "pod", "container", "endpoint", "job", "instance"}
        for rule in endpoint["relabelings"]:
            self.assertEqual(rule["action"], "labeldrop")
            target = {each for each in target if not re.fullmatch(rule["regex"], each)}
        self.assertEqual(target, {"namespace", "job", "instance"})
        (chosen,) = spec["selector"]["matchExpressions"]
        jobs = [
            each["metadata"]["labels"][spec["jobLabel"]]
            for (kind, _), each in made.items()
            if kind == "Service"
            and spec["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
            and each["metadata"]["labels"][chosen["key"]] in chosen["values"]
        ]
        self.assertEqual(sorted(jobs), [f"apus-{service}" for service in sorted(SERVICES)])
        alerts = (ROOT / "Dashboards/prometheus/alerts.yml").read_text()
        self.assertEqual(set(re.findall(r'job="([a-z-]+)"', alerts)), set(jobs))

    def test_the_rules_are_the_projects_own_and_promtool_takes_them(self) -> None:
        own: list[Any] = []
        for name in ("rules.yml", "alerts.yml"):
            text = (ROOT / "Dashboards/prometheus" / name).read_text()
            self.assertEqual((CHART / "files" / name).resolve(), ROOT / "Dashboards/prometheus" / name, "the chart links to the rules")
            # A target that is absent is one of the release, whatever there is in other namespaces.
            own += yaml.safe_load(text.replace("absent(up{", 'absent(up{namespace="push", '))["groups"]
            with tempfile.TemporaryDirectory() as folder, tarfile.open(package(CHART, destination=folder)) as archive:
                packed = archive.extractfile(f"apus/files/{name}")
                self.assertEqual(packed and packed.read().decode(), text, "a packaged chart has the rules themselves")
        plain = render({**ALL, "monitoring": {"enabled": True}})["PrometheusRule", "apus"]
        self.assertEqual(plain["apiVersion"], "monitoring.coreos.com/v1")
        self.assertEqual(plain["spec"], {"groups": own})
        self.assertEqual(len(re.findall(r'absent\(up\{namespace="push", job=', json.dumps(own).replace('\\"', '"'))), len(SERVICES))
        made = render(ALL)["PrometheusRule", "apus"]["spec"]
        links = {rule["annotations"]["runbook_url"] for group in made["groups"] for rule in group["rules"] if "alert" in rule}
        self.assertTrue(all(link.startswith("https://runbooks.example/apus/Apus") for link in links), links)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump(made, file)
            file.flush()
            run = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_init_runs_before_the_services_of_its_version(self) -> None:
        secure = {"url": "rediss://redis:6379", "password_file": "/run/secrets/apus/redis-password", "ca_file": "/run/secrets/apus/redis-ca.pem"}
        for values, redis in ((LEAST, CONFIGURATION["redis"]), (ALL, {**CONFIGURATION["redis"], "user": "admin"}),
                              ({**ALL, "configuration": {**CONFIGURATION, "redis": secure}}, {**secure, "user": "admin"})):
            job = render(values)["Job", "apus-init"]
            self.assertEqual(job["metadata"]["annotations"]["helm.sh/hook"], "pre-install,pre-upgrade")
            (container,) = job["spec"]["template"]["spec"]["containers"]
            self.assertEqual(container["command"], ["apus", "init"])
            self.assertCountEqual(container["env"], [{"name": f"APUS_REDIS_{key.upper()}", "value": value} for key, value in redis.items()])
        for sizes, options in (
            ({"queueShards": 24}, ["--queue-shards", "24"]),
            ({"queueShards": 24, "devicePartitions": 96}, ["--queue-shards", "24", "--device-partitions", "96"]),
        ):
            job = render({**LEAST, "init": sizes})["Job", "apus-init"]
            self.assertEqual(job["spec"]["template"]["spec"]["containers"][0]["command"], ["apus", "init", *options])
        self.assertNotIn(("Job", "apus-init"), render({**LEAST, "init": {"enabled": False}}))

    def test_the_console_is_off_unless_enabled_and_open_only_behind_a_proxy(self) -> None:
        self.assertFalse([name for _, name in render(LEAST) if "console" in name])
        inside = render({**LEAST, "console": {"enabled": True}})
        self.assertEqual(sorted(kind for kind, name in inside if name == "apus-console"), ["Deployment", "NetworkPolicy"])
        self.assertNotIn("ingress", inside["NetworkPolicy", "apus-console"]["spec"])
        (container,) = inside["Deployment", "apus-console"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["command"], ["apus-console", "--config", "/etc/apus/apus.yaml", "--listen", "127.0.0.1:8190"])
        # The kubelet reaches no loopback address.
        self.assertFalse([each for each in container if each.endswith("Probe")])
        made = render(ALL)
        (container,) = made["Deployment", "apus-console"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["command"][3:], ["--listen", "0.0.0.0:8190", "--public-url", "https://push.example"])
        self.assertEqual(container["env"], [{"name": "APUS_REDIS_USER", "value": "apus-operator"}])
        probes = [value["httpGet"] for each, value in container.items() if each.endswith("Probe")]
        self.assertEqual(len(probes), 3)
        for probe in probes:
            self.assertEqual((probe["path"], probe["httpHeaders"]), ("/sign-in", [{"name": "Host", "value": "push.example"}]))
        service = made["Service", "apus-console"]["spec"]
        labels = made["Deployment", "apus-console"]["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(service["selector"].items(), labels.items())

    def test_the_notes_print_commands_for_the_users_of_the_pods(self) -> None:
        for values, key in ((LEAST, "  apus key create"), (ALL, "exec deploy/apus-console -- apus key create")):
            with Chart.load(CHART) as chart:
                files = chart.render(values, name="apus", namespace="push", is_install=True)
            (notes,) = [text for path, text in files.items() if path.endswith("NOTES.txt")]
            # Without --redis, beside which a configuration's user and password do not count.
            self.assertIn("exec deploy/apus-dispatcher -- apus lag\n", notes)
            self.assertIn(key, notes)

    def test_a_changed_configuration_restarts_the_services(self) -> None:
        def sums(values: dict[str, Any]) -> set[str]:
            return {
                each["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"]
                for (kind, _), each in render(values).items()
                if kind == "Deployment"
            }

        self.assertEqual(len(sums(LEAST) | sums({**LEAST, "image": {"tag": "2"}})), 1)
        self.assertEqual(len(sums(LEAST) | sums({"configuration": {**CONFIGURATION, "dispatcher": {"lease": "5s"}}})), 2)

    def test_mistakes_are_refused_with_what_is_wrong(self) -> None:
        for values, sentence in (
            ({}, "configuration.apps names no app"),
            ({**LEAST, "autoscale": {"enabled": True}}, "autoscale"),
            ({**LEAST, "dispatcher": {"replica": 3}}, "replica"),
            ({**LEAST, "secrets": {"dispatcher": ["Not A Name"]}}, "pattern"),
            ({"configuration": {**CONFIGURATION, "redis": {"url": "redis:6379"}}}, "pattern"),
            ({**LEAST, "networkPolicy": {"monitoring": []}}, "minItems"),
            ({**LEAST, "init": {"queueShards": 2_000}}, "want 1,024"),
            ({**LEAST, "console": {"enabled": True, "publicURL": "http://push.example"}}, "pattern"),
        ):
            with self.subTest(sentence=sentence), self.assertRaises(HelmError) as caught:
                with Chart.load(CHART) as chart:
                    chart.validate_schema(values)
                render(values)
            self.assertIn(sentence, str(caught.exception))

    def test_the_chart_is_of_the_programs_version(self) -> None:
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        build = (ROOT / "Sources/ApusService/Lifecycle/BuildInformation+Current.swift").read_text()
        self.assertIn(f'packageVersion = "{chart["appVersion"]}"', build)
        for _, _, container in containers(render(LEAST)):
            self.assertEqual(container["image"], f"apus:{chart['appVersion']}")


if __name__ == "__main__":
    unittest.main()
