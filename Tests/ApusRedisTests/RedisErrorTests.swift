import ApusRedis
import Testing

@Suite("Redis errors")
struct RedisErrorTests {
    @Test(
        "the server's words have their codes",
        arguments: [
            ("MOVED 3999 127.0.0.1:6381", .moved), ("ASK 3999 127.0.0.1:6381", .ask),
            ("TRYAGAIN Multiple keys request during rehashing of slot", .tryAgain),
            ("CLUSTERDOWN The cluster is down", .clusterDown), ("CROSSSLOT Keys in request", .crossSlot),
            ("READONLY You can't write against a read only replica.", .readOnly),
            ("LOADING Redis is loading", .loading),
            ("MASTERDOWN Link with MASTER is down", .masterDown), ("NOREPLICAS Not enough good replicas", .noReplicas),
            ("MISCONF Errors writing to the AOF file", .misconfigured), ("BUSY Redis is busy", .busy),
            ("OOM command not allowed", .outOfMemory), ("NOAUTH Authentication required.", .noAuthentication),
            ("WRONGPASS invalid username-password pair", .wrongPassword), ("NOPERM this user has no", .noPermission),
            ("UNBLOCKED the stream key no longer exists", .unblocked), ("NOGROUP No such key", .noGroup),
            ("BUSYGROUP Consumer Group name already exists", .groupExists), ("WRONGTYPE Operation against", .wrongType),
            ("EXECABORT Transaction discarded", .transactionAborted), ("ERR Function not found", .functionMissing),
            ("ERR The user executing the script can't run this command or subcommand", .noPermission),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
                .noPermission
            ),
            ("ERR unknown command", .server), ("CONFLICT other body", .server), ("", .server),
        ] as [(String, RedisError.Code)],
    )
    func codes(text: String, code: RedisError.Code) {
        let error = RedisError(serverText: text)
        #expect(error.code == code)
        #expect(error.message == text)
        #expect(error.word == (text.split(separator: " ").first.map(String.init) ?? ""))
    }

    @Test("what was certainly not executed, what nobody knows, and what an operator must mend are three classes")
    func classes() {
        let retryable: [RedisError.Code] = [
            .moved, .ask, .tryAgain, .clusterDown, .readOnly, .loading, .masterDown, .noReplicas, .misconfigured, .busy,
            .notConnected, .full,
        ]
        let unknown: [RedisError.Code] = [.disconnected, .timedOut, .protocolViolation]
        let neither: [RedisError.Code] = [
            .outOfMemory, .crossSlot, .noPermission, .wrongPassword, .noGroup, .unblocked, .server, .closed, .tooLarge,
        ]
        for code in retryable {
            #expect(RedisError(code, "").isRetryable && !RedisError(code, "").isOutcomeUnknown, "\(code)")
        }
        for code in unknown {
            #expect(!RedisError(code, "").isRetryable && RedisError(code, "").isOutcomeUnknown, "\(code)")
        }
        for code in neither {
            #expect(!RedisError(code, "").isRetryable && !RedisError(code, "").isOutcomeUnknown, "\(code)")
        }
    }

    @Test("an outage says nothing against who asked; the rest does")
    func outages() {
        let outages: [RedisError.Code] = [
            .loading, .readOnly, .notConnected, .full, .disconnected, .timedOut, .outOfMemory, .noPermission, .noGroup,
            .functionMissing, .functionsOutdated, .serverChanged, .closed, .tls, .unexpectedReply,
        ]
        for code in outages { #expect(RedisError(code, "").isOutage, "\(code)") }
        for code in [RedisError.Code.wrongType, .crossSlot, .tooLarge, .server, .groupExists] {
            #expect(!RedisError(code, "").isOutage && !RedisError(code, "").isPassing, "\(code)")
        }
        // One who watches goes on for those that nobody has to put right.
        for code in outages {
            let isForOperator = code == .noPermission || code == .functionMissing
            #expect(RedisError(code, "").isPassing != isForOperator, "\(code)")
        }
    }

    @Test func `Every failure has what follows it, whoever reports it`() {
        #expect(Disposition(of: RedisError(.serverChanged, "")) == .retryNow)
        #expect(Disposition(of: RedisError(.timedOut, "")) == .retryLater)
        #expect(Disposition(of: RedisError(.wrongType, "")) == .giveBack)
        #expect(Disposition(of: RedisError(.tooLarge, "")) == .bury)
        #expect(Disposition(of: CancellationError()) == .stop)
        struct Unknown: Error {}
        #expect(Disposition(of: Unknown()) == .giveBack)
        #expect(
            [Disposition.retryNow, .retryLater, .giveBack, .bury, .stop].map(\.isOutage) == [
                true, true, false, false, false,
            ]
        )
    }

    @Test("a text is kept up to its limit")
    func textLimit() {
        let allowed = String(repeating: "a", count: RedisLimits.errorTextBytesMax)
        #expect(RedisError(serverText: allowed).message == allowed)
        #expect(RedisError(serverText: allowed + "a").message == allowed)
    }

    @Test("a redirection names slot and server")
    func redirection() {
        let source = RedisEndpoint.host("10.0.0.7", port: 1)
        func parse(_ text: String) -> RedisRedirection? { RedisRedirection(RedisError(serverText: text), by: source) }
        let moved = parse("MOVED 3999 127.0.0.1:6381")
        #expect(moved?.slot == 3_999)
        #expect(moved?.endpoint == .host("127.0.0.1", port: 6_381))
        #expect(parse("MOVED 1 2001:db8::1:7000")?.endpoint == .host("2001:db8::1", port: 7_000))
        // A node that does not know its own address sends an empty host.
        #expect(parse("MOVED 1 :7000")?.endpoint == .host("10.0.0.7", port: 7_000))
        for text in ["MOVED 16384 h:1", "MOVED 1 h:0", "MOVED 1 h", "MOVED x h:1", "MOVED 1", "ASK 1 h:1"] {
            #expect(parse(text) == nil, "\(text)")
        }
    }
}
