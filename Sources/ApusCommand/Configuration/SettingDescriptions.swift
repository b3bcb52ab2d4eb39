internal import ApusCore
internal import ApusProviders

/// The meanings of all settings, as the article Configuration has them; a test compares both. Those of a provider's section come from it.
enum SettingDescriptions {
    /// Returns the meaning of a setting; nil for an unknown key.
    ///
    /// - Parameter key: the full key, with `*` for names; one of a service's own section means what it means for all services.
    static func text(of key: String) -> String? {
        if let text = Self.texts[key] ?? Self.providersText(of: key) { return text }
        guard let dot = key.firstIndex(of: ".") else { return nil }
        return Self.texts[String(key[key.index(after: dot)...])]
    }

    /// Returns the meaning of a setting in a provider's section of an app.
    private static func providersText(of key: String) -> String? {
        for provider in ProviderList.installed.all {
            let section = "apps.*.\(provider.traits.name)."
            guard key.hasPrefix(section) else { continue }
            return provider.settingDescriptions[String(key.dropFirst(section.count))]
        }
        return nil
    }

    private static let texts: [String: String] = [
        "redis.url":
            "redis://, rediss:// (TLS) or unix:///path; of a cluster, redis+cluster:// or rediss+cluster:// and "
            + "some of its nodes, with commas between them; for Sentinels, redis+sentinel:// or rediss+sentinel://, "
            + "all of them with commas between, / and the master's name. It may hold user and password, as "
            + "redis://user:password@host with %2F for a / in them, which no command shows; a password in a file is safer",
        "store.encryption_key_file":
            "a file with the keys that records of devices are encrypted with in Redis: 64 hexadecimal digits on each "
            + "line, as openssl rand -hex 32 writes, the current key first and at most three older ones below it; else "
            + "they are stored as they are",
        "publishers.*.apps": "the apps that it may publish for; at least one",
        "redis.user": "the ACL user; needs redis.password_file",
        "redis.password_file": "the file with its password",
        "redis.sentinel_user": "the ACL user of the Sentinels; needs redis.sentinel_password_file",
        "redis.sentinel_password_file": "the file with the password that the Sentinels themselves require",
        "redis.ca_file": "the authority of Redis' certificate, for an address with TLS; else the system's",
        "admin.listen":
            "where /metrics, /healthz and /readyz are, and feedback's /scale; 9101 is registration, 9102 the "
            + "dispatcher, 9103 feedback",
        "admin.port_file": "a file that the chosen port is written to, with port 0",
        "admin.tls.certificate_file": "the certificate and its chain: with it the admin endpoints speak HTTPS",
        "admin.tls.key_file": "its private key",
        "admin.tls.client_ca_file":
            "the authority of clients' certificates: without such a certificate only probes are answered, by a status",
        "log.level": "the least level that is written: trace to critical",
        "log.format": "json, text, or auto: text on a terminal, else JSON",
        "tracing.endpoint": "an OTLP collector for spans of traces that are recorded, such as http://127.0.0.1:4318",
        "tracing.ca_file": "the authority of its certificate",
        "drain_timeout":
            "how long a service may finish what it has in hand after SIGTERM; beyond 40s raise TimeoutStopSec of the units "
            + "of systemd and stop_grace_period of the compose file as well, which are 45 s, else the service is killed "
            + "in the middle",
        "event_loops": "threads that drive sockets; 0 is one for each core",
        "apps.*.matrix.app_ids":
            "the ids by which Matrix homeservers name the app: with any, registration is their push gateway",
        "apps.*.cors_origins":
            "the origins of web pages that may call the HTTP API for the app, such as https://shop.example",
        "apps.*.receipt_streams":
            "names of up to 32 receipt streams that sends over HTTP may have as reply_to: orders is "
            + "apus:receipts:<app>:orders; apus:receipts:<app> is always there",
        "apps.*.auth.jwt.algorithm": "es256, rs256 or hs256",
        "apps.*.auth.jwt.key_file": "the identity provider's public key, PEM",
        "apps.*.auth.jwt.jwks_file": "or its public keys, a JSON Web Key Set",
        "apps.*.auth.jwt.secret_file": "or, for hs256, the shared secret",
        "apps.*.auth.jwt.audience": "what aud must contain",
        "apps.*.auth.jwt.issuer": "what iss must be, if it is to be looked at",
        "apps.*.auth.jwt.leeway": "how far clocks may differ",
        "apps.*.auth.api_keys.*.sha256": "a backend's key as 64 hexadecimal digits of its SHA-256",
        "apps.*.auth.api_keys.*.role": "register, publish or admin",
        "registration.listen": "where the HTTP API listens",
        "registration.port_file": "a file that the chosen port is written to, with port 0",
        "registration.tls.certificate_file": "the certificate and its chain: with it the API speaks HTTPS",
        "registration.tls.key_file": "its private key",
        "registration.connections":
            "connections at once; as many as fit where the limit of open files is too low for them, which the log says",
        "registration.connections_per_address":
            "connections of one client address at once (of IPv6, of one /64); with tls the default is a tenth of "
            + "connections, else none, because behind a proxy all have the proxy's address",
        "registration.memory_limit":
            "what all clients together may make the process hold: bodies, import lines, answers that "
            + "nobody reads; beyond it, or beyond its app's or user's share, 503 with Retry-After",
        "registration.idle_timeout": "how long a connection may be silent between requests",
        "registration.request_timeout":
            "how long a request may take to arrive, from its first byte; the first one from when the connection "
            + "is made; and how long its answers may lie unread",
        "registration.wait_for_replica":
            "true: a change of a device, or a send, over HTTP is acknowledged only once a replica of Redis has it; without an "
            + "answer of the replica within a second it is 503, and for an hour after the last replica was seen; a process that has "
            + "seen none since it was started, or since the address of Redis was changed, waits for none",
        "registration.app_rate_per_second":
            "requests of one app's backends to a process; its users' devices may ask as often together, and homeservers as well",
        "registration.client_rate_per_second": "requests of one user to a process",
        "registration.homeserver_rate_per_second":
            "requests of Matrix homeservers of one client address (of IPv6, of one /64) to a process, each as many as the devices that it "
            + "names; with tls the default is 500, else none, because behind a proxy all have the proxy's address",
        "registration.push_key_rate_per_second": "notifications of Matrix homeservers for one push key to a process",
        "registration.failed_authentications_per_minute":
            "credentials of one client address (of IPv6, of one /64) that may be refused in a minute; beyond it 429 with "
            + "Retry-After, but for keys and for tokens that were accepted before; with tls the default is 600, else "
            + "none, because behind a proxy all have the proxy's address",
        "registration.devices_per_app":
            "devices of an app, roughly: each partition has its share and some more; one more "
            + "is refused",
        "registration.topics_per_app": "topics of an app; a device cannot enter one more",
        "registration.topics_per_user": "topics that came up with devices of one user, or with one device of nobody",
        "registration.janitor_rate": "records that the janitor looks at in a second",
        "registration.janitor_interval": "how often it looks over each partition",
        "registration.forget_stale": "whether devices that were silent for too long are removed",
        "registration.fcm_stale_after": "how long that is for FCM, whose tokens expire then",
        "registration.lease": "how long a reader of the register stream may be silent before others take its work",
        "dispatcher.lease": "how long a silent dispatcher keeps its work: what a kill -9 delays",
        "dispatcher.heartbeat": "how often an owner speaks up without progress; less than half of the lease",
        "dispatcher.flush_interval": "how often progress is written",
        "dispatcher.window":
            "recipients of a route and event loop that may be unwritten at once: what a kill -9 repeats at most",
        "dispatcher.recheck_after":
            "how long what was read of a recipient may be relied on: whoever waited longer is read again before "
            + "they are sent to; of a send with an expiry a minute at most",
        "dispatcher.due_interval":
            "how often retries and scheduled sends are looked for; a fifth as often in a shard where none is near",
        "dispatcher.units_in_hand": "work units of a route and lane at once, for each queue shard",
        "dispatcher.commands_in_hand": "mailbox entries at once, for each queue shard",
        "dispatcher.idempotency_window":
            "for how long the same id or idempotency key is the same send, at least; the same for all "
            + "dispatchers, set in Redis when one starts; a longer one counts for keys from then on",
        "dispatcher.open_sends_per_app":
            "sends of an app that are planned, or kept to be retried, and have not ended, in all; one more is "
            + "refused with a receipt, unless some of it went out",
        "dispatcher.open_bytes_per_app": "bytes of the commands of those",
        "dispatcher.removed_route_after":
            "when no running dispatcher has had a route in its configuration for so long, what is left of its "
            + "sends ends as no_route",
        "dispatcher.crypto_threads": "threads that encrypt messages for browsers; 0 is one less than there are cores",
        "dispatcher.replay_bytes":
            "bytes of the last minute's writes that are kept to repeat them after a failover; 0 is none",
        "feedback.lease": "how long a silent process keeps its work",
        "feedback.batches_in_hand": "batches of outcomes at once, for each queue shard",
        "feedback.keep_ledgers": "how long the ledger of an ended send is kept",
        "feedback.sweep_after":
            "how long nothing may have happened to a send before it is looked whether anything of it is left",
        "feedback.delete_suspects_after":
            "how long a quarantined token waits until its device is deleted; a browser that subscribed "
            + "with another key is tried again instead",
        "feedback.suspect_window": "the short window in which quarantined tokens are compared with answers",
        "feedback.suspects_min":
            "owners of tokens called bad, or dead, that stop a route, at least; "
            + "five of tokens registered within the hour count as one",
        "feedback.suspect_percent": "share of the answers that owners of bad tokens must exceed for that",
        "feedback.unregistered_percent":
            "share of the answers that owners of dead tokens must exceed for that; 100 is never",
        "feedback.undo_window":
            "how long a device that was deleted for its provider's word can be brought back; 0 is not at all",
        "feedback.history": "whether devices have a history (apus device history)",
        "feedback.keep_history": "how long it is kept after its last event",
        "feedback.histories": "devices of an app with a history, at most",
        "feedback.progress": "whether receipts tell of a send that is under way",
        "feedback.progress_every": "how often, at most",
        "feedback.progress_percent": "share of the recipients that must have ended since",
        "feedback.webhook.url": "where receipts without a reply_to are posted",
        "feedback.webhook.secret_file":
            "the secret that requests are signed with: a line of at least 32 bytes, or whsec_ and the base64 of "
            + "24 to 64; below it, up to three that it replaces",
        "feedback.webhook.batch": "receipts of one request",
        "feedback.webhook.attempts":
            "tries of one batch until it is given up, some forty hours, or of each of its receipts after eight of the batch at which "
            + "the receiver fails (500); of a receipt that is refused by itself (400, 409, 413, 422) ten at most, or three where others "
            + "of its batch were taken; of one at which the receiver fails while it takes others, twenty",
        "feedback.webhook.timeout": "how long connecting and the answer may take",
        "feedback.webhook.ca_file": "the authority of the server's certificate",
    ]
}
