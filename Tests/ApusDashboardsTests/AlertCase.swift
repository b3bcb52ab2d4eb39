@testable import ApusDashboards

/// Describes an alert's reaction to a series of values: when it fires, when it has resolved, and what it ignores.
struct AlertCase {
    /// A series and its values, in promtool's notation: one for each interval.
    typealias Series = (name: String, values: String)

    /// The labels of the alert.
    let labels: [(name: String, value: String)]
    /// Minutes between two values.
    var interval = 1
    /// In minutes.
    let fires: Int
    let resolved: Int
    let series: [Series]
    /// Courses of events that look similar, when it must be silent at the time of `fires`.
    let nearMisses: [[Series]]

    init(
        _ name: String,
        _ severity: Severity,
        _ labels: [(name: String, value: String)] = [],
        interval: Int = 1,
        fires: Int,
        resolved: Int,
        _ series: [Series],
        silent nearMisses: [Series]...,
    ) {
        self.labels = [("alertname", name), ("severity", severity.rawValue)] + labels
        self.interval = interval
        self.fires = fires
        self.resolved = resolved
        self.series = series
        self.nearMisses = nearMisses
    }

    /// Returns true when the case is about that alert.
    func isAbout(_ alert: Alert) -> Bool {
        let own =
            [("alertname", alert.name), ("severity", alert.severity.rawValue)]
            + alert.labels.map { ($0.name, $0.value) }
        return own.allSatisfy { pair in self.labels.contains { $0.name == pair.0 && $0.value == pair.1 } }
    }

    /// The case in promtool's words.
    var yaml: String {
        self.test(self.series, self.question(self.fires, true) + self.question(self.resolved, false))
            + self.nearMisses.map { self.test($0, self.question(self.fires, false)) }.joined()
    }

    /// The namespace of the installation that the alert is about in `yamlBesideAnother`.
    static let namespace = "push"

    /// The case beside each of its near misses in another namespace, in promtool's words: it fires all the same.
    var yamlBesideAnother: String {
        let own = self.series.map { Self.series($0, in: Self.namespace) }
        return self.nearMisses.map { other in
            self.test(own + other.map { Self.series($0, in: "other") }, self.question(self.fires, true))
        }.joined()
    }

    private static func series(_ series: Series, in namespace: String) -> Series {
        (series.name.replacing("{", with: "{namespace=\"\(namespace)\", ", maxReplacements: 1), series.values)
    }

    private func question(_ minutes: Int, _ isFiring: Bool) -> String {
        let selector = self.labels.map { "\($0.name)=\"\($0.value)\"" }.joined(separator: ", ")
        return """
                  - expr: 'count(ALERTS{alertstate="firing", \(selector)}) > bool 0'
                    eval_time: \(minutes)m
                    exp_samples: \(isFiring ? "[{labels: '{}', value: 1}]" : "[]")

            """
    }

    private func test(_ series: [Series], _ questions: String) -> String {
        "  - interval: \(self.interval)m\n    input_series:\n"
            + series.map { "      - {series: '\($0.name)', values: '\($0.values)'}\n" }.joined()
            + "    promql_expr_test:\n" + questions
    }
}

extension AlertCase {
    /// Every alert.
    static let all = Self.burns + Self.streams + Self.providers + Self.processes

    private static let dispatcher = #"job="apus-dispatcher", instance="a""#

    // MARK: Objectives

    private static func delivery(_ bad: Int, of all: Int, until end: Int) -> [Series] {
        let name = "apus_feedback_outcomes_total{job=\"apus-feedback\", instance=\"a\", provider=\"apns\""
        return [
            ("\(name), outcome=\"accepted\"}", "0+\(all - bad)x100"),
            ("\(name), outcome=\"failed\"}", Self.course(bad, until: end)),
            // Dead tokens are nobody's failure.
            ("\(name), outcome=\"unregistered\"}", "0+0x100"),
        ]
    }

    private static func latency(_ bad: Int, of all: Int, until end: Int) -> [Series] {
        let name = "apus_dispatcher_delivery_latency_seconds"
        let labels = "\(dispatcher), provider=\"fcm\", lane=\"express\""
        // A broadcast is slow, and that is nobody's fault.
        let bulk = "\(dispatcher), provider=\"fcm\", lane=\"bulk\""
        return [
            ("\(name)_bucket{\(bulk), le=\"1.0\"}", "0x100"), ("\(name)_count{\(bulk)}", "0+\(all)x100"),
            ("\(name)_bucket{\(labels), le=\"1.0\"}", "0+\(all - bad)x\(end) \((all - bad) * end)+\(all)x100"),
            ("\(name)_count{\(labels)}", "0+\(all)x100"),
        ]
    }

    private static func registration(_ bad: Int, of all: Int, until end: Int) -> [Series] {
        let name = #"apus_http_requests_total{job="apus-registration", instance="a", method="PUT", route="x""#
        return [
            ("\(name), code=\"2xx\"}", "0+\(all - bad)x100"),
            ("\(name), code=\"422\"}", "0+\(all)x100"),
            ("\(name), code=\"503\"}", Self.course(bad, until: end)),
        ]
    }

    /// Grows by so much each interval, then stands still.
    private static func course(_ step: Int, until end: Int) -> String { "0+\(step)x\(end) \(step * end)+0x100" }

    private static var burns: [AlertCase] {
        let times: [String: (fires: Int, short: Int)] = [
            "1h": (15, 5), "6h": (30, 30), "1d": (90, 120), "3d": (300, 360),
        ]
        let all = 100_000
        return Objective.all.flatMap { objective in
            Objective.burns.map { burn in
                // Long windows are looked at less often: evaluating them takes its time.
                let interval = ["1d", "3d"].contains(burn.long) ? 10 : 1
                guard let time = times[burn.long] else { preconditionFailure("a window without a test") }
                let limit = burn.factor * objective.budget * Double(all)
                func series(_ factor: Double, of total: Int) -> [Series] {
                    let bad = Int(limit * factor) * total / all
                    switch objective.alert {
                    case Objective.delivery.alert: return Self.delivery(bad, of: total, until: time.fires / interval)
                    case Objective.latency.alert: return Self.latency(bad, of: total, until: time.fires / interval)
                    default:
                        // Refused requests count too: as many again as were answered.
                        return Self.registration(bad * 2, of: total, until: time.fires / interval)
                    }
                }
                return AlertCase(
                    objective.alert,
                    burn.severity,
                    [("long_window", burn.long), ("short_window", burn.short)],
                    interval: interval,
                    fires: time.fires,
                    resolved: time.fires + time.short + 10,
                    series(1.4, of: all),
                    silent: series(0.7, of: all),
                )
            }
        } + [
            // Half of one a minute fails: nobody is woken.
            AlertCase(
                Objective.delivery.alert,
                .critical,
                [("long_window", "1h")],
                fires: 15,
                resolved: 40,
                Self.delivery(2_000, of: 100_000, until: 15),
                silent: Self.delivery(1, of: 1, until: 15),
            )
        ]
    }

    // MARK: Streams

    private static func stream(_ name: String, _ stream: String, _ values: String) -> Series {
        ("apus_stream_\(name){\(dispatcher), stream=\"\(stream)\", group=\"dispatcher\"}", values)
    }

    private static let streams: [AlertCase] = [
        AlertCase(
            "ApusStreamStalled",
            .critical,
            fires: 14,
            resolved: 20,
            [stream("backlog_entries", "in_bulk", "5x15 0x20"), stream("entries_read_total", "in_bulk", "7x40")],
            silent: [stream("backlog_entries", "in_bulk", "5x40"), stream("entries_read_total", "in_bulk", "7+1x40")],
            // Due entries are moved, not read.
            [stream("backlog_entries", "due", "5x40"), stream("entries_read_total", "due", "0x40")],
        ),
        AlertCase(
            "ApusReadsStalled",
            .critical,
            fires: 6,
            resolved: 14,
            [("apus_stream_reads_stalled{\(dispatcher)}", "0x4 32x5 0x20")],
            silent: [("apus_stream_reads_stalled{\(dispatcher)}", "0x40")],
        ),
        AlertCase(
            "ApusBacklogOld",
            .warning,
            fires: 14,
            resolved: 20,
            [stream("oldest_unread_timestamp_seconds", "in_bulk", "1x15 0x20")],
            silent: [stream("oldest_unread_timestamp_seconds", "in_bulk", "1x4 1+60x40")],
        ),
        AlertCase(
            "ApusBacklogOld",
            .critical,
            fires: 45,
            resolved: 50,
            [stream("oldest_unread_timestamp_seconds", "in_bulk", "1x46 0x20")],
            // Old enough for a warning.
            silent: [stream("oldest_unread_timestamp_seconds", "in_bulk", "1x25 1+60x60")],
        ),
        AlertCase(
            "ApusPendingStuck",
            .warning,
            fires: 25,
            resolved: 30,
            [stream("oldest_pending_timestamp_seconds", "in_express", "1x26 0x20")],
            silent: [stream("oldest_pending_timestamp_seconds", "plan", "1x40")],
            [stream("oldest_pending_timestamp_seconds", "in_express", "1x10 1+60x40")],
            // An old backlog is read and finished.
            [
                stream("oldest_pending_timestamp_seconds", "in_express", "1x40"),
                stream("oldest_unread_timestamp_seconds", "in_express", "5x40"),
            ],
        ),
        AlertCase(
            "ApusDeadLetters",
            .warning,
            fires: 8,
            resolved: 30,
            [("apus_stream_dead_letters_total{\(dispatcher), stream=\"in_bulk\", reason=\"malformed\"}", "0x5 1x60")],
            silent: [("apus_stream_dead_letters_total{\(dispatcher), stream=\"in_bulk\", reason=\"poison\"}", "3x60")],
        ),
        // The webhook takes others meanwhile.
        AlertCase(
            "ApusDeadLetters",
            .warning,
            [("stream", "receipts")],
            fires: 8,
            resolved: 30,
            [(deadReceipts, "0x5 1x60"), webhook("delivered", "5+1x60")],
            silent: [(deadReceipts, "3x60"), webhook("delivered", "5+1x60")],
        ),
    ]

    private static let deadReceipts =
        #"apus_stream_dead_letters_total{job="apus-feedback", instance="a", stream="receipts", reason="poison"}"#

    // MARK: Providers

    private static func provider(_ name: String, _ labels: String, _ values: String) -> Series {
        let more = labels.isEmpty ? "" : ", \(labels)"
        return ("apus_\(name){\(dispatcher), provider=\"apns\"\(more)}", values)
    }

    /// The series of another dispatcher.
    private static func other(_ name: String, _ labels: String, _ values: String) -> Series {
        ("apus_\(name){job=\"apus-dispatcher\", instance=\"b\", provider=\"apns\", \(labels)}", values)
    }

    private static func route(_ state: String, _ values: String) -> Series {
        ("apus_feedback_\(state)_routes{job=\"apus-feedback\", instance=\"a\", route=\"shop/apns/production\"}", values)
    }

    /// The expiry of the credential of one route.
    private static func expiry(_ kind: String, _ values: String) -> Series {
        (
            "apus_provider_credential_expiry_timestamp_seconds{\(dispatcher), route=\"shop/apns/production\", kind=\"\(kind)\"}",
            values
        )
    }

    private static func deliveries(_ outcome: String, _ values: String) -> Series {
        provider("dispatcher_deliveries_total", "outcome=\"\(outcome)\"", values)
    }

    /// Fires when less than so many days are left; a new one is put in place two hours later.
    private static func certificate(_ severity: Severity, days: Int) -> AlertCase {
        let limit = days * 86_400
        return AlertCase(
            "ApusCertificateExpiring",
            severity,
            interval: 10,
            fires: 60,
            resolved: 150,
            [expiry("certificate", "\(limit + 1_200)x12 \(limit + 31_536_000)x20")],
            silent: [expiry("certificate", "\(limit + 6_000)x40")],
            // Tokens live for an hour, and are renewed.
            [expiry("jwt", "3600+600x40")],
        )
    }

    private static let providers: [AlertCase] = [
        AlertCase(
            "ApusProviderDown",
            .critical,
            fires: 10,
            resolved: 15,
            [
                provider("provider_connections", "state=\"open\"", "0x11 1x20"),
                provider("provider_connections", "state=\"connecting\"", "1x40"),
                provider("provider_connection_attempts_total", "outcome=\"tcp\"", "0+3x40"),
            ],
            silent: [
                provider("provider_connections", "state=\"open\"", "1x40"),
                provider("provider_connection_attempts_total", "outcome=\"tcp\"", "0+3x40"),
            ],
            // Idle, and nobody has tried.
            [
                provider("provider_connections", "state=\"open\"", "0x40"),
                provider("provider_connection_attempts_total", "outcome=\"tcp\"", "3x40"),
            ],
            // The last connection has just ended, as its provider asked, and the next ones are made.
            [
                provider("provider_connections", "state=\"open\"", "0x40"),
                provider("provider_connection_attempts_total", "outcome=\"ok\"", "0+3x40"),
                provider("provider_connection_attempts_total", "outcome=\"tcp\"", "3x40"),
            ],
        ),
        // One dispatcher has lost its way out, while another one keeps its connections.
        AlertCase(
            "ApusProviderDown",
            .critical,
            [("instance", "a")],
            fires: 10,
            resolved: 15,
            [
                provider("provider_connections", "state=\"open\"", "0x11 2x20"),
                provider("provider_connection_attempts_total", "outcome=\"tcp\"", "0+3x40"),
                other("provider_connections", "state=\"open\"", "2x40"),
                other("provider_connection_attempts_total", "outcome=\"tcp\"", "0x40"),
            ],
            // The attempts that fail are those of another one, which has connections.
            silent: [
                provider("provider_connections", "state=\"open\"", "0x40"),
                provider("provider_connection_attempts_total", "outcome=\"tcp\"", "3x40"),
                other("provider_connections", "state=\"open\"", "2x40"),
                other("provider_connection_attempts_total", "outcome=\"tcp\"", "0+3x40"),
            ],
        ),
        AlertCase(
            "ApusOriginRefusesKey",
            .warning,
            fires: 35,
            resolved: 55,
            // The few recipients come back up to a minute after the five for which it rests.
            [provider("provider_origins", "state=\"refused\"", "0x10 1x4 0 1x4 0 1x4 0 1x4 0 1x4 0 0x30")],
            silent: [provider("provider_origins", "state=\"resting\"", "3x60")],
            [provider("provider_origins", "state=\"refused\"", "0x22 1x5 0x30")],
        ),
        AlertCase(
            "ApusProviderThrottled",
            .warning,
            fires: 20,
            resolved: 30,
            [
                provider("provider_requests_total", "code=\"429\"", "0+6x20 120x40"),
                provider("provider_requests_total", "code=\"2xx\"", "0+94x60"),
            ],
            silent: [
                provider("provider_requests_total", "code=\"429\"", "0+4x60"),
                provider("provider_requests_total", "code=\"2xx\"", "0+96x60"),
            ],
            [
                provider("provider_requests_total", "code=\"429\"", "0x60"),
                provider("provider_requests_total", "code=\"503\"", "0+20x60"),
                provider("provider_requests_total", "code=\"2xx\"", "0+80x60"),
            ],
        ),
        AlertCase(
            "ApusProviderSaturated",
            .warning,
            fires: 14,
            resolved: 20,
            [
                provider("provider_streams_inflight", "", "95x15 10x20"),
                provider("provider_streams_limit", "", "100x40"),
            ],
            silent: [
                provider("provider_streams_inflight", "", "90x40"),
                provider("provider_streams_limit", "", "100x40"),
            ],
        ),
        AlertCase(
            "ApusCircuitOpen",
            .warning,
            fires: 10,
            resolved: 15,
            [route("failing", "1x11 0x20")],
            silent: [
                route("failing", "0x40"), provider("provider_circuit_state", "state=\"half_open\"", "1x40"),
            ],
        ),
        AlertCase(
            "ApusCredentialNotRenewed",
            .critical,
            fires: 15,
            resolved: 20,
            // Renewed at the sixteenth minute.
            [expiry("jwt", "600x15 9000x20")],
            silent: [expiry("jwt", "600+60x40")],
            // Nobody renews a certificate by the minute: it has an alert of its own.
            [expiry("certificate", "600x40")],
        ),
        Self.certificate(.warning, days: 30),
        Self.certificate(.critical, days: 14),
        AlertCase(
            "ApusRouteQuarantined",
            .critical,
            fires: 6,
            resolved: 12,
            [route("quarantined", "0x4 1x5 0x20")],
            silent: [
                route("quarantined", "0x40"),
                provider("feedback_suspect_tokens", "", "1000x40"),
            ],
        ),
        AlertCase(
            "ApusRouteFaulty",
            .critical,
            fires: 6,
            resolved: 12,
            [route("faulty", "0x4 1x5 0x20")],
            silent: [route("faulty", "0x40")],
        ),
        AlertCase(
            "ApusUnregisteredSurge",
            .info,
            interval: 10,
            fires: 1_530,
            resolved: 1_700,
            [deliveries("accepted", "0+1000x200"), deliveries("unregistered", "0+10x144 1440+300x10 4440+10x60")],
            // Many, but no more than on other days.
            silent: [deliveries("accepted", "0+1000x200"), deliveries("unregistered", "0+300x200")],
        ),
    ]

    // MARK: Processes

    private static func process(_ name: String, _ values: String) -> Series { ("\(name){\(dispatcher)}", values) }

    private static func lag(_ bound: String, _ values: String) -> Series {
        ("apus_event_loop_lag_seconds_bucket{\(dispatcher), le=\"\(bound)\"}", values)
    }

    private static let processes: [AlertCase] =
        [
            AlertCase(
                "ApusRedisDisconnected",
                .critical,
                fires: 10,
                resolved: 14,
                [process("apus_redis_connected", "1x4 0x6 1x20")],
                silent: [process("apus_redis_connected", "1 0 1 0 1 0 1 0 1 0 1 0 1 0")],
            ),
            AlertCase(
                "ApusShardUnreachable",
                .critical,
                fires: 10,
                resolved: 14,
                [process("apus_stream_unreachable_shards", "0x4 5x7 0x20")],
                silent: [process("apus_stream_unreachable_shards", "0x10 5 0x30")],
            ),
            AlertCase(
                "ApusFunctionsMissing",
                .critical,
                [],
                fires: 8,
                resolved: 14,
                [process("apus_redis_servers_without_functions", "0x4 1x6 0x20")],
                silent: [process("apus_redis_servers_without_functions", "0x40")],
            ),
            AlertCase(
                "ApusRecordsRefused",
                .critical,
                fires: 8,
                resolved: 20,
                [process("apus_store_records_refused_total", "0x4 1x6 2x20")],
                silent: [process("apus_store_records_refused_total", "3x40")],
            ),
            AlertCase(
                "ApusEventLoopBlocked",
                .warning,
                fires: 14,
                resolved: 22,
                [
                    lag("0.1", "0+98x15 1470+100x20"), lag("0.25", "0+100x35"), lag("+Inf", "0+100x35"),
                ],
                silent: [lag("0.1", "0+199x35"), lag("0.25", "0+200x35"), lag("+Inf", "0+200x35")],
            ),
            AlertCase(
                "ApusFdsNearLimit",
                .warning,
                fires: 10,
                resolved: 15,
                [
                    process("process_open_fds", "90x11 10x20"), process("process_max_fds", "100x40"),
                    process("apus_build_info", "1x40"),
                ],
                silent: [
                    process("process_open_fds", "80x40"), process("process_max_fds", "100x40"),
                    process("apus_build_info", "1x40"),
                ],
                // Somebody else's process.
                [process("process_open_fds", "90x40"), process("process_max_fds", "100x40")],
            ),
            AlertCase(
                "ApusConfigReloadFailed",
                .warning,
                fires: 12,
                resolved: 20,
                [process("apus_config_last_reload_successful", "1x3 0x12 1x20")],
                silent: [process("apus_config_last_reload_successful", "1x10 0x2 1x20")],
            ),
            AlertCase(
                "ApusServiceMissing",
                .critical,
                [("service", "dispatcher")],
                fires: 1,
                resolved: 15,
                [
                    (
                        #"apus_feedback_service_processes{job="apus-feedback", instance="a", service="dispatcher", state="missing"}"#,
                        "1x10 0x20"
                    )
                ],
                silent: [
                    (
                        #"apus_feedback_service_processes{job="apus-feedback", instance="a", service="dispatcher", state="missing"}"#,
                        "0x40"
                    ),
                    (
                        #"apus_feedback_service_processes{job="apus-feedback", instance="a", service="dispatcher", state="running"}"#,
                        "1x40"
                    ),
                ],
            ),
            AlertCase(
                "ApusWebhookFailing",
                .warning,
                fires: 10,
                resolved: 40,
                [webhook("retried", "0+1x11 11x40"), webhook("delivered", "5x11 5+1x40"), webhook("dead", "0x50")],
                silent: [
                    webhook("retried", "0+1x50"), webhook("delivered", "5+1x50"), webhook("dead", "0x50"),
                ],
                [webhook("retried", "0x50"), webhook("delivered", "0x50"), webhook("dead", "0x50")],
            ),
            // It takes those of other shards.
            AlertCase(
                "ApusWebhookFailing",
                .warning,
                fires: 20,
                resolved: 40,
                [
                    webhook("retried", "0+1x50"), webhook("delivered", "5+1x50"),
                    (webhookFailingSince, "60x25 0x25"),
                ],
                // Each of them is taken after some tries.
                silent: [
                    webhook("retried", "0+1x50"), webhook("delivered", "5+1x50"),
                    (webhookFailingSince, "0x10 600+60x40"),
                ],
            ),
            // It takes fewer than come.
            AlertCase(
                "ApusWebhookFailing",
                .warning,
                fires: 10,
                resolved: 40,
                [webhook("delivered", "0+5x50"), webhook("expired", "0x4 1+1x8 9x40")],
                silent: [webhook("delivered", "0+5x50"), webhook("expired", "0x50")],
            ),
            AlertCase(
                "ApusTargetMissing",
                .critical,
                [("job", "apus-dispatcher")],
                fires: 1,
                resolved: 15,
                up("apus-registration", "1x40") + up("apus-dispatcher", "0x11 1x20") + up("apus-feedback", "1x40"),
                silent: up("apus-registration", "1x40") + up("apus-dispatcher", "1x40") + up("apus-feedback", "1x40")
                    + [(#"up{job="apus-dispatcher", instance="b"}"#, "0x40")],
            ),
            // Prometheus does not know that it should look for it.
            AlertCase(
                "ApusTargetMissing",
                .critical,
                [("job", "apus-feedback")],
                fires: 1,
                resolved: 15,
                up("apus-registration", "1x40") + up("apus-dispatcher", "1x40") + up("apus-feedback", "_x12 1x20"),
                silent: up("apus-registration", "1x40") + up("apus-dispatcher", "1x40") + up("apus-feedback", "1x40"),
            ),
        ]

    private static let webhookFailingSince =
        #"apus_feedback_webhook_failing_since_timestamp_seconds{job="apus-feedback", instance="a"}"#

    private static func webhook(_ effect: String, _ values: String) -> Series {
        (
            "apus_feedback_webhook_receipts_total{job=\"apus-feedback\", instance=\"a\", effect=\"\(effect)\"}", values
        )
    }

    private static func up(_ job: String, _ values: String) -> [Series] {
        [("up{job=\"\(job)\", instance=\"a\"}", values)]
    }
}
