package import ApusRedis
internal import ApusTerminal

extension Diagnosis {
    /// The minimum of Redis' limit on a field in a compact hash: a record with a long token must stay below it.
    static let listpackBytesMin: Int64 = 512
    /// The difference of clocks from which latencies and ages are wrong.
    static let clockWarnMilliseconds: Int64 = 1_000
    /// The difference of clocks from which expiries and schedules are wrong, and the providers refuse tokens.
    static let clockFailMilliseconds: Int64 = 60_000
    /// The shares of used memory and connections that cause a finding, in percent.
    static let usedWarnPercent: Int64 = 80
    static let usedFailPercent: Int64 = 95

    /// Returns the findings about a server. Pure.
    ///
    /// - Parameter mayFollow: true when the server may be a replica, since another one was found to be its master.
    package static func redis(
        _ facts: RedisServerFacts,
        at place: String,
        mayFollow: Bool = false,
    ) -> [Finding] {
        [
            Self.version(facts, place), Self.eviction(facts, place), Self.memory(facts, place),
            Self.persistence(facts, place), Self.replication(facts, place, mayFollow), Self.clients(facts, place),
            Self.listpack(facts, place), Self.clock(facts, place),
        ].compactMap(\.self)
    }

    private static func version(_ facts: RedisServerFacts, _ place: String) -> Finding {
        let text = facts.info["redis_version"] ?? "unknown"
        let major = text.split(separator: ".").first.flatMap { Int($0) } ?? 0
        guard major >= 7 else {
            return Finding(
                .fail,
                .version,
                place,
                "Redis is \(text), which has no functions",
                cure: "Install Redis 7.0 or later"
            )
        }
        return Finding(.ok, .version, place, "Redis \(text)")
    }

    private static func eviction(_ facts: RedisServerFacts, _ place: String) -> Finding {
        let policy = facts.info["maxmemory_policy"] ?? "unknown"
        let evicted = facts.number("evicted_keys") ?? 0
        if policy != "noeviction" {
            let lost = evicted > 0 ? "; \(NumberText.grouped(evicted)) keys were evicted already" : ""
            return Finding(
                .fail,
                .eviction,
                place,
                "maxmemory-policy is \(policy): a full Redis evicts devices and sends\(lost)",
                cure: "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"
            )
        }
        guard evicted == 0 else {
            return Finding(
                .warn,
                .eviction,
                place,
                "noeviction, but \(NumberText.grouped(evicted)) keys were evicted since Redis started",
                cure: "Devices may be missing: run apus store check for each app"
            )
        }
        return Finding(.ok, .eviction, place, "noeviction")
    }

    private static func memory(_ facts: RedisServerFacts, _ place: String) -> Finding {
        let used = facts.number("used_memory") ?? 0
        let limit = facts.number("maxmemory") ?? 0
        guard limit > 0 else {
            return Finding(
                .warn,
                .memory,
                place,
                "\(Self.mebibytes(used)) used, without a limit: on a full machine the kernel ends Redis",
                cure: "Set maxmemory below the machine's memory: a full Redis then refuses new data, and drains"
            )
        }
        let text = "\(Self.mebibytes(used)) of \(Self.mebibytes(limit)) used"
        guard let verdict = Self.fullness(used, of: limit) else { return Finding(.ok, .memory, place, text) }
        return Finding(verdict, .memory, place, text, cure: "Give Redis more memory, or find the backlog with apus lag")
    }

    private static func persistence(_ facts: RedisServerFacts, _ place: String) -> Finding {
        if facts.info["loading"] == "1" {
            return Finding(
                .warn,
                .persistence,
                place,
                "it is loading its data, and answers nothing else meanwhile",
                cure: "Wait"
            )
        }
        for (field, what) in [
            ("aof_last_write_status", "the append-only file"), ("rdb_last_bgsave_status", "the snapshot"),
        ] where facts.info[field].map({ $0 != "ok" }) ?? false {
            return Finding(
                .fail,
                .persistence,
                place,
                "\(what) could not be written: Redis refuses writes until it can",
                cure: "Look at Redis' log; usually the disk is full"
            )
        }
        guard facts.info["aof_enabled"] == "1" else {
            return Finding(
                .warn,
                .persistence,
                place,
                "appendonly is no: accepted data is lost when Redis restarts",
                cure: "CONFIG SET appendonly yes, and the same in redis.conf"
            )
        }
        switch facts.settings["appendfsync"] {
        case "no"?:
            return Finding(
                .warn,
                .persistence,
                place,
                "append-only file, never synced: a crash of the machine loses some thirty seconds",
                cure: "CONFIG SET appendfsync everysec, or always"
            )
        case let sync?: return Finding(.ok, .persistence, place, "append-only file, appendfsync \(sync)")
        case nil: return Finding(.ok, .persistence, place, "append-only file")
        }
    }

    /// Returns the findings about the Sentinels of a master. Pure.
    ///
    /// - Parameter name: the master's name.
    package static func sentinels(_ reports: [SentinelTopology.Report], _ name: String) -> [Finding] {
        reports.map { Self.sentinel($0, name, of: reports.count) }
    }

    private static func sentinel(
        _ report: SentinelTopology.Report,
        _ name: String,
        of count: Int,
    ) -> Finding {
        let place = "\(report.sentinel)"
        let view: SentinelTopology.View
        switch report.result {
        case .success(let given): view = given
        case .failure(let error):
            let isRefused = error.isCredentials || error.code == .configuration
            let cure =
                isRefused
                ? "" : "Start it, or name another in redis.url: a majority of those that are named must answer"
            return Finding(isRefused ? .fail : .warn, .sentinel, place, error.message, cure: cure)
        }
        guard let master = view.master else {
            let names = view.names.isEmpty ? "it has none" : "it has \(view.names.joined(separator: ", "))"
            let cure = "Correct the name at the end of redis.url, or give the Sentinel that master: SENTINEL MONITOR"
            return Finding(.fail, .sentinel, place, "it has no master named '\(name)': \(names)", cure: cure)
        }
        let known = view.otherSentinels + 1
        guard known == count else {
            let detail = "it names \(master), and knows \(known) Sentinels; redis.url names \(count)"
            let cure = "Name all of them: a majority of those that are named decides who is the master"
            return Finding(.warn, .sentinel, place, detail, cure: cure)
        }
        guard count >= 3 else {
            let cure = "Run three, on three machines: with fewer, the death of one ends every failover"
            return Finding(.warn, .sentinel, place, "it names \(master), and \(count) Sentinels watch it", cure: cure)
        }
        let text = "it names \(master) as one of \(count) Sentinels, quorum \(view.quorum)"
        return Finding(.ok, .sentinel, place, text)
    }

    /// Returns the findings about the replicas that Sentinels do not reach. Pure.
    ///
    /// - Parameter name: the master's name.
    package static func unreachedReplicas(_ replicas: [RedisEndpoint], _ name: String) -> [Finding] {
        let cure = "Start it, or have every Sentinel forget it: SENTINEL RESET \(name)"
        return replicas.map {
            Finding(.warn, .connection, "\($0)", "a replica that its Sentinels do not reach", cure: cure)
        }
    }

    private static func replication(_ facts: RedisServerFacts, _ place: String, _ mayFollow: Bool) -> Finding {
        guard facts.info["role"] != "slave" else {
            let primary = "\(facts.info["master_host"] ?? "?"):\(facts.info["master_port"] ?? "?")"
            if mayFollow || facts.info["cluster_enabled"] == "1" {
                guard facts.info["master_link_status"] == "up" else {
                    let cure = "See its log: until it follows, a failure of that primary loses data"
                    return Finding(.warn, .replication, place, "a replica that does not follow \(primary)", cure: cure)
                }
                return Finding(.ok, .replication, place, "replica of \(primary)")
            }
            return Finding(
                .fail,
                .replication,
                place,
                "it is a replica of \(primary) and accepts no writes",
                cure: "Name the primary in redis.url, the nodes of a cluster with redis+cluster://, or Sentinels with "
                    + "redis+sentinel://"
            )
        }
        // Of a cluster, the nodes together tell whom nobody follows.
        if mayFollow, facts.info["cluster_enabled"] != "1", facts.replicasOnline == 0 {
            let cure = "Start or add replicas: without one no failover can happen, and the data ends with its machine"
            return Finding(.warn, .replication, place, "primary, and no replica follows it", cure: cure)
        }
        let replicas = facts.number("connected_slaves") ?? 0
        return Finding(.ok, .replication, place, replicas == 1 ? "primary, 1 replica" : "primary, \(replicas) replicas")
    }

    private static func clients(_ facts: RedisServerFacts, _ place: String) -> Finding? {
        guard let connected = facts.number("connected_clients"), let most = facts.number("maxclients"), most > 0
        else { return nil }
        let text = "\(NumberText.grouped(connected)) of \(NumberText.grouped(most)) connections"
        guard let verdict = Self.fullness(connected, of: most) else { return Finding(.ok, .clients, place, text) }
        return Finding(verdict, .clients, place, text, cure: "Raise maxclients: further connections are refused")
    }

    private static let listpackCure =
        "Put hash-max-listpack-value \(listpackBytesMin) into redis.conf. apus init sets it, and writes it there, where it may: "
        + "what is set only with CONFIG SET is gone when Redis restarts"

    private static func listpack(_ facts: RedisServerFacts, _ place: String) -> Finding {
        guard let bytes = facts.settings["hash-max-listpack-value"].flatMap({ Int64($0) }) else {
            return Finding(
                .warn,
                .listpack,
                place,
                "CONFIG is not there or not allowed: hash-max-listpack-value is unknown",
                cure:
                    "Make sure that it is \(Self.listpackBytesMin) or more: else devices take about a quarter more memory"
            )
        }
        guard bytes >= Self.listpackBytesMin else {
            return Finding(
                .warn,
                .listpack,
                place,
                "hash-max-listpack-value is \(bytes): devices take about a quarter more memory",
                cure: Self.listpackCure
            )
        }
        return Finding(.ok, .listpack, place, "hash-max-listpack-value is \(bytes)")
    }

    private static func clock(_ facts: RedisServerFacts, _ place: String) -> Finding {
        let off = facts.clockAheadMilliseconds.magnitude
        let text = "\(off) ms \(facts.clockAheadMilliseconds < 0 ? "behind" : "ahead of") this machine"
        guard off > Self.clockWarnMilliseconds else { return Finding(.ok, .clock, place, text) }
        return Finding(
            off > Self.clockFailMilliseconds ? .fail : .warn,
            .clock,
            place,
            text,
            cure:
                "Synchronise both machines with a time server: expiries, schedules and provider tokens depend on the clock"
        )
    }

    /// Returns the verdict on a used share; nil when there is room.
    private static func fullness(_ used: Int64, of limit: Int64) -> Verdict? {
        let percent = Int64(Double(used) / Double(limit) * 100)
        if percent >= Self.usedFailPercent { return .fail }
        return percent >= Self.usedWarnPercent ? .warn : nil
    }

    private static func mebibytes(_ bytes: Int64) -> String { "\(NumberText.grouped(bytes / 1_048_576)) MiB" }
}
