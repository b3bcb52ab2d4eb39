import ApusCore
import ApusStore
import ApusTestKit
import NIOCore
import Testing

@testable import ApusRegistration

private let body = #"{"provider":"fcm","token":"t1"}"#

private struct Row: Sendable {
    let method: String
    let target: String
    var json: String?
    var key: String? = Fixture.shopKey
    var headers: [(String, String)] = []
    let status: Int
    let type: String
    var title: String?
}

@Suite struct ProblemTests {
    private static let device = "/v1/apps/shop/devices/d1"
    private static let table = [
        Row(method: "GET", target: "/", status: 404, type: "not-found"),
        Row(method: "GET", target: "/v1/apps/shop/devices", status: 404, type: "not-found"),
        Row(method: "GET", target: "/v1/apps/shop/devices/", status: 404, type: "not-found"),
        Row(method: "GET", target: "\(device)/x", status: 404, type: "not-found"),
        Row(method: "GET", target: "\(device)/topics/", status: 404, type: "not-found"),
        Row(method: "GET", target: "/v1/apps/shop/devices/%zz", status: 404, type: "not-found"),
        Row(method: "GET", target: "/v1/apps/shop/devices/%ff", status: 404, type: "not-found"),
        Row(method: "GET", target: "/v2/apps/shop/devices/d1", status: 404, type: "not-found"),
        Row(method: "GET", target: device, status: 404, type: "not-found", title: "There is no such resource"),
        Row(method: "POST", target: device, status: 405, type: "method-not-allowed"),
        Row(method: "TRACE", target: device, status: 405, type: "method-not-allowed"),
        Row(method: "GET", target: "\(device)/topics/a", status: 405, type: "method-not-allowed"),
        Row(method: "PATCH", target: "/v1/apps/shop/users/u/devices/d", status: 405, type: "method-not-allowed"),
        Row(method: "PUT", target: device, json: body, key: nil, status: 401, type: "unauthorized"),
        Row(method: "PUT", target: device, json: body, key: "wrong", status: 401, type: "unauthorized"),
        Row(method: "PUT", target: device, json: body, key: Fixture.newsKey, status: 401, type: "unauthorized"),
        Row(method: "PUT", target: device, json: body, key: Fixture.publishKey, status: 403, type: "forbidden"),
        Row(method: "PUT", target: device, json: "{", status: 400, type: "malformed-request"),
        Row(method: "PUT", target: device, json: "", status: 400, type: "malformed-request"),
        Row(method: "PUT", target: device, json: #"{"a":1,"a":2}"#, status: 400, type: "malformed-request"),
        Row(
            method: "PUT",
            target: "/v1/apps/shop/devices/a%20b",
            json: body,
            status: 400,
            type: "malformed-request"
        ),
        Row(
            method: "PUT",
            target: "/v1/apps/shop/devices/\(String(repeating: "d", count: 129))",
            json: body,
            status: 400,
            type: "malformed-request"
        ),
        Row(
            method: "PUT",
            target: device,
            json: body,
            headers: [("if-match", "*"), ("if-none-match", "*")],
            status: 400,
            type: "malformed-request"
        ),
        Row(
            method: "PUT",
            target: device,
            json: body,
            headers: [("content-type", "text/plain")],
            status: 415,
            type: "unsupported-media-type"
        ),
        Row(
            method: "PUT",
            target: device,
            json: body,
            headers: [("content-type", "application/json; charset=latin1")],
            status: 415,
            type: "unsupported-media-type"
        ),
        Row(
            method: "PUT",
            target: device,
            json: body,
            headers: [("content-type", "application/json"), ("content-encoding", "gzip")],
            status: 415,
            type: "unsupported-media-type"
        ),
    ]

    @Test func everyProblemHasItsTypeStatusAndTitle() async throws {
        try await Fixture.with { fixture in
            var titles: [String: JSONValue] = [:]
            for row in Self.table {
                let answer = try await fixture.ask(row.method, row.target, row.json, key: row.key, row.headers)
                let what = "\(row.method) \(row.target) \(row.json ?? "") \(answer.text)"
                #expect(answer.status == row.status, "\(what)")
                #expect(answer.header("content-type") == "application/problem+json", "\(what)")
                #expect(try member(answer, "type") == .string("urn:apus:problem:\(row.type)"), "\(what)")
                #expect(try member(answer, "status") == .integer(row.status), "\(what)")
                let id = try #require(answer.header("x-request-id"))
                #expect(try member(answer, "instance") == .string("/requests/\(id)"))
                let title = try #require(try member(answer, "title"))
                #expect(titles[row.type] ?? title == title, "a title is the same each time")
                titles[row.type] = title
                #expect((answer.header("www-authenticate") != nil) == (row.status == 401))
                #expect((answer.header("allow") != nil) == (row.status == 405))
            }
        }
    }

    @Test func anAppThatIsNotThereLooksLikeOneThatIs() async throws {
        try await Fixture.with { fixture in
            let id = ("x-request-id", "same")
            for key in ["wrong", Fixture.newsKey, try Fixture.token("anna", expiresIn: -600) + "x"] {
                let there = try await fixture.ask("GET", Fixture.path("d"), key: key, [id])
                let notThere = try await fixture.ask("GET", Fixture.path("d", app: "nowhere"), key: key, [id])
                #expect(there.status == 401)
                #expect(there.text == notThere.text)
                #expect(there.headers.map(\.name) == notThere.headers.map(\.name))
                #expect(there.header("www-authenticate") == notThere.header("www-authenticate"))
            }
            let metrics = try await fixture.metrics
            #expect(metrics.contains("apus_registration_auth_failures_total{cause=\"unknown_app\"} 3\n"))
            #expect(metrics.contains("apus_registration_auth_failures_total{cause=\"key\"} 2\n"))
            #expect(metrics.contains("apus_registration_auth_failures_total{cause=\"signature\"} 1\n"))
        }
    }

    @Test func aBodyHasALimit() async throws {
        try await Fixture.with { fixture in
            let limit = 16 * 1_024
            func padded(_ count: Int) -> String {
                #"{"provider":"fcm","token":"t1""# + String(repeating: " ", count: count - 31) + "}"
            }
            #expect(padded(limit).utf8.count == limit)
            #expect(try await fixture.ask("PUT", Fixture.path("d1"), padded(limit)).status == 201)
            let tooLarge = try await fixture.ask("PUT", Fixture.path("d1"), padded(limit + 1))
            #expect(tooLarge.status == 413)
            #expect(try member(tooLarge, "type") == "urn:apus:problem:content-too-large")

            // Without saying how much will come; the connection goes on afterwards.
            let connection = try await fixture.connect()
            let chunked = try await connection.ask(
                "PUT",
                Fixture.path("d1"),
                [
                    ("authorization", "Bearer \(Fixture.shopKey)"), ("content-type", "application/json"),
                    ("x-request-id", "mine-1"),
                ],
                body: Array(padded(limit + 1).utf8),
            )
            #expect(chunked.status == 413)
            #expect(chunked.header("x-request-id") == "mine-1")
            let next = try await connection.ask(
                "GET",
                Fixture.path("d1"),
                [("authorization", "Bearer \(Fixture.shopKey)")]
            )
            #expect(next.status == 200)
            await connection.close()
        }
    }

    @Test func whoeverSendsTooSlowlyOrTooMuchIsCutOff() async throws {
        try await Fixture.with(settings: "  request_timeout: 2s") { fixture in
            let head = "PUT \(Fixture.path("d1")) HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(Fixture.shopKey)\r\n"
            let slow = try await HTTPConnection.open(port: fixture.port, isRaw: true)
            try? await slow.write(head + "content-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            await slow.waitUntilEnded()
            let endless = try await HTTPConnection.open(port: fixture.port, isRaw: true)
            try? await endless.write(head + "content-length: 10000000\r\n\r\n")
            let part = String(repeating: "x", count: 64 * 1_024)
            for _ in 0..<9 { try? await endless.write(part) }
            await endless.waitUntilEnded()
            try await eventually("both are counted") {
                try await fixture.metrics.contains("apus_http_connections_cut_total 2\n")
            }
        }
    }

    @Test func `Whoever does not read answers is cut off, and whoever reads them slowly is not`() async throws {
        try await Fixture.with(settings: "  request_timeout: 2s\n  idle_timeout: 1h") { fixture in
            let request = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n"
            let (requests, bytes) = (400, try await fixture.ask("GET", "/openapi.json", key: nil).body.count)
            // Sockets hold some megabytes.
            #expect(requests * bytes > 16 << 20)
            func open(reads: Bool) async throws -> HTTPConnection {
                try await HTTPConnection.open(port: fixture.port, isRaw: true) { channel in
                    try channel.syncOptions?.setOption(.autoRead, value: reads)
                }
            }
            let reading = try await open(reads: true)
            let unread = try await open(reads: false)
            for connection in [reading, unread] {
                try? await connection.write(String(repeating: request, count: requests))
            }
            try await eventually("only one is cut off") {
                try await fixture.metrics.contains("apus_http_connections_cut_total 1\n")
            }
            try await reading.write(request)
            for connection in [reading, unread] { await connection.close() }
            #expect(try await fixture.metrics.contains("apus_http_connections_cut_total 1\n"))
        }
    }

    @Test func aRequestHasOneHost() async throws {
        try await Fixture.with { fixture in
            let key = ("authorization", "Bearer \(Fixture.shopKey)")
            let connection = try await fixture.connect()
            let without = try await connection.ask("GET", Fixture.path("d1"), [key], host: nil)
            #expect(without.status == 400)
            #expect(without.text.contains("Host exactly once"))
            for other in ["other", "localhost"] {
                #expect(try await connection.ask("GET", Fixture.path("d1"), [key, ("host", other)]).status == 400)
            }
            for host in ["a b", "a/b", "ada@localhost", "local\u{e9}"] {
                let answer = try await connection.ask("GET", Fixture.path("d1"), [key], host: host)
                #expect(answer.status == 400, "\(host)")
            }
            for host in ["", "localhost:8180", "[::1]:8180"] {
                let answer = try await connection.ask("GET", Fixture.path("d1"), [key], host: host)
                #expect(answer.status == 404, "\(host)")
            }
            #expect(try await connection.ask("GET", Fixture.path("d1"), [key]).status == 404)
            await connection.close()
        }
    }

    @Test func whoeverSaysNothingOrNeverEndsTheHeadIsCutOff() async throws {
        try await Fixture.with(settings: "  request_timeout: 2s\n  idle_timeout: 1h") { fixture in
            let silent = try await HTTPConnection.open(port: fixture.port, isRaw: true)
            let dripping = try await HTTPConnection.open(port: fixture.port, isRaw: true)
            let drip = Task {
                try await dripping.write("GET / HTTP/1.1\r\nx: ")
                while true {
                    try await dripping.write("x")
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            await silent.waitUntilEnded()
            await dripping.waitUntilEnded()
            drip.cancel()
            try await eventually("both are counted") {
                try await fixture.metrics.contains("apus_http_connections_cut_total 2\n")
            }
        }
    }

    @Test func betweenTwoRequestsAConnectionMayBeSilentForLonger() async throws {
        try await Fixture.with(settings: "  request_timeout: 2s\n  idle_timeout: 1h") { fixture in
            let key = ("authorization", "Bearer \(Fixture.shopKey)")
            var idle: HTTPConnection?
            try await eventually("a first request comes in time") {
                let connection = try await fixture.connect()
                guard let answer = try? await connection.ask("GET", Fixture.path("d1"), [key]) else { return false }
                idle = connection
                return answer.status == 404
            }
            try await Task.sleep(for: .seconds(3))
            #expect(try await idle?.ask("GET", Fixture.path("d1"), [key]).status == 404)
            await idle?.close()
        }
    }

    @Test func `An import may pause for longer than a connection may be silent between requests`() async throws {
        try await Fixture.with(settings: "  idle_timeout: 100ms") { fixture in
            let connection = RawConnection()
            let channel = try await connection.connect(port: fixture.port)
            let head =
                "POST /v1/apps/shop/devices:import HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(Fixture.shopKey)\r\n"
                + "content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
            let line = #"{"device":"a","provider":"fcm","token":"t"}"# + "\n"
            let chunk = "\(String(line.utf8.count, radix: 16))\r\n\(line)\r\n"
            try await channel.writeAndFlush(ByteBuffer(string: head + chunk))
            try await eventually("the first line is answered") { connection.answer.contains(#"{"line":1,"#) }
            try await Task.sleep(for: .milliseconds(500))
            #expect(!connection.isClosed)
            try await channel.writeAndFlush(ByteBuffer(string: chunk + "0\r\n\r\n"))
            try await eventually("the second line is answered") { connection.answer.contains(#"{"line":2,"#) }
            try await eventually("the connection is closed for its silence") { connection.isClosed }
        }
    }

    @Test func `A connection ends with the answer to a request of HTTP 1_0, unless the client keeps it`() async throws {
        try await Fixture.with(settings: "  idle_timeout: 1h") { fixture in
            let request = "GET /openapi.json HTTP/1.0\r\nhost: a\r\n"
            let once = RawConnection()
            let short = try await once.connect(port: fixture.port)
            try await short.writeAndFlush(ByteBuffer(string: request + "\r\n"))
            try await eventually("the connection ends") { once.isClosed }
            #expect(once.answer.hasPrefix("HTTP/1.1 200 ") && once.answer.contains("devices:import"))

            let kept = RawConnection()
            let long = try await kept.connect(port: fixture.port)
            for count in 1...2 {
                try await long.writeAndFlush(ByteBuffer(string: request + "connection: keep-alive\r\n\r\n"))
                try await eventually("request \(count) is answered") {
                    kept.answer.ranges(of: "HTTP/1.1 200 ").count == count
                }
            }
            #expect(!kept.isClosed)
            try await long.close()
        }
    }

    @Test func anAddressHasSoManyConnections() async throws {
        try await Fixture.with(settings: "  connections_per_address: 2") { fixture in
            let key = ("authorization", "Bearer \(Fixture.shopKey)")
            let first = try await fixture.connect()
            #expect(try await first.ask("GET", Fixture.path("d1"), [key]).status == 404)
            let second = try await fixture.connect()
            #expect(try await second.ask("GET", Fixture.path("d1"), [key]).status == 404)
            let third = try await HTTPConnection.open(port: fixture.port, isRaw: true)
            await third.waitUntilEnded()
            await second.close()
            try await eventually("there is room for another one") {
                guard let next = try? await fixture.connect() else { return false }
                let answer = try? await next.ask("GET", Fixture.path("d1"), [key])
                await next.close()
                return answer?.status == 404
            }
            #expect(try await first.ask("GET", Fixture.path("d1"), [key]).status == 404)
            #expect(try await !fixture.metrics.contains("apus_http_connections_refused_total 0\n"))
        }
    }

    @Test func `Bodies that are announced and do not come take no memory`() async throws {
        try await Fixture.with(settings: "  memory_limit: 16MiB") { fixture in
            let head =
                "POST /v1/apps/shop/sends HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(Fixture.publishKey)\r\n"
                + "content-type: application/json\r\ncontent-length: \(320 * 1_024)\r\n\r\n{"
            var slow: [HTTPConnection] = []
            for _ in 0..<60 {
                let connection = try await HTTPConnection.open(port: fixture.port, isRaw: true)
                try await connection.write(head)
                slow.append(connection)
            }
            try await eventually("one byte of each is held") {
                try await fixture.metrics.contains("apus_http_held_bytes \(60 * APILimits.bodyCopies)\n")
            }
            let body = "{}" + String(repeating: " ", count: 300 * 1_024)
            let answer = try await fixture.ask("POST", "/v1/apps/shop/sends", body, key: Fixture.publishKey)
            #expect(answer.status == 422)
            for connection in slow { await connection.close() }
        }
    }

    @Test func `Bodies take no more memory than their app's share, and leave others theirs`() async throws {
        try await Fixture.with(settings: "  memory_limit: 16MiB") { fixture in
            let length = 310 * 1_024
            let unfinished =
                "POST /v1/apps/shop/sends HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(Fixture.publishKey)\r\n"
                + "content-type: application/json\r\ncontent-length: \(length + 1)\r\n\r\n{"
                + String(repeating: " ", count: length - 1)
            var slow: [HTTPConnection] = []
            // A body is held twice: as it arrives, and as it is parsed. The share of an app's backends is half of the whole.
            for _ in 0..<(8 * 1_024 * 1_024 / length / 2) {
                let connection = try await HTTPConnection.open(port: fixture.port, isRaw: true)
                try await connection.write(unfinished)
                slow.append(connection)
            }
            let held = slow.count * length * 2
            try await eventually("all are held") {
                try await fixture.metrics.contains("apus_http_held_bytes \(held)\n")
            }
            let body = Array(("{}" + String(repeating: " ", count: 300 * 1_024)).utf8)
            let headers = [
                ("authorization", "Bearer \(Fixture.publishKey)"), ("content-type", "application/json"),
            ]
            let refused = try await fixture.connect()
            let answer = try await refused.ask("POST", "/v1/apps/shop/sends", headers, body: body)
            #expect(answer.status == 503)
            #expect(answer.header("retry-after") == "2")
            #expect(answer.text.contains("urn:apus:problem:overloaded"))
            await refused.close()
            let importing = [("authorization", "Bearer \(Fixture.shopKey)"), ("content-type", "application/x-ndjson")]
            let second = try await fixture.connect()
            let none = try await second.ask("POST", "/v1/apps/shop/devices:import", importing, body: [])
            #expect(none.status == 503)
            await second.close()
            // A request without a body still fits, and so do another app's, and a user's.
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
            let device = #"{"provider":"fcm","token":"t1"}"# + String(repeating: " ", count: 15 * 1_024)
            let news = try await fixture.ask("PUT", Fixture.path("d1", app: "news"), device, key: Fixture.newsKey)
            #expect(news.status == 201)
            let own = try await fixture.ask("PUT", Fixture.path("d1"), device, key: try Fixture.token("anna"))
            #expect(own.status == 201)
            for connection in slow { await connection.close() }
            try await eventually("nothing is held any more") {
                try await fixture.metrics.contains("apus_http_held_bytes 0\n")
            }
            let next = try await fixture.connect()
            #expect(try await next.ask("POST", "/v1/apps/shop/sends", headers, body: body).status == 422)
            await next.close()
            #expect(try await fixture.metrics.contains("apus_registration_rejected_total{cause=\"memory\"} 2\n"))
        }
    }

    @Test func `An import counts as held from its beginning`() async throws {
        try await Fixture.with(settings: "  memory_limit: 16MiB") { fixture in
            let importing =
                "POST /v1/apps/shop/devices:import HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(Fixture.shopKey)\r\n"
                + "content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
            var open: [HTTPConnection] = []
            let most = 4 * 1_024 * 1_024 / APILimits.importBytes
            for _ in 0..<most {
                let connection = try await HTTPConnection.open(port: fixture.port, isRaw: true)
                try await connection.write(importing)
                open.append(connection)
            }
            try await eventually("the imports are held") {
                try await fixture.metrics.contains("apus_http_held_bytes \(most * APILimits.importBytes)\n")
            }
            let path = "/v1/apps/shop/devices:import"
            let ndjson = [("content-type", "application/x-ndjson")]
            #expect(try await fixture.ask("POST", path, "", ndjson).status == 503)
            let send = #"{"target":{"topic":"a"},"notification":{"title":"A"}}"#
            #expect(try await fixture.ask("POST", "/v1/apps/shop/sends", send, key: Fixture.publishKey).status == 202)
            for connection in open { await connection.close() }
        }
    }

    @Test func connectionsAndHeadersHaveLimits() async throws {
        try await Fixture.with(settings: "  connections: 2") { fixture in
            let key = ("authorization", "Bearer \(Fixture.shopKey)")
            let first = try await fixture.connect()
            let second = try await fixture.connect()
            #expect(try await first.ask("GET", Fixture.path("d1"), [key]).status == 404)
            #expect(try await second.ask("GET", Fixture.path("d1"), [key]).status == 404)
            let third = try await fixture.connect()
            async let waiting = third.ask("GET", Fixture.path("d1"), [key])
            // The third one is not accepted before another one goes.
            #expect(try await first.ask("GET", Fixture.path("d1"), [key]).status == 404)
            #expect(try await fixture.metrics.contains("apus_http_connections 2\n"))
            await first.close()
            #expect(try await waiting.status == 404)
            let most = ("x-large", String(repeating: "x", count: 20 * 1_024))
            #expect(try await second.ask("GET", Fixture.path("d1"), [key, most]).status == 404)
            let tooMuch = ("x-large", String(repeating: "x", count: 20 * 1_024 + 1))
            #expect(try await second.ask("GET", Fixture.path("d1"), [key, tooMuch]).status == 400)
            try await second.waitUntilClosed()
            await third.close()
        }
    }

    @Test func withoutRedisTheAnswerIsLater() async throws {
        try await Fixture.with { fixture in
            await fixture.redis.kill()
            let answer = try await fixture.ask("GET", Fixture.path("d1"))
            #expect(answer.status == 503)
            #expect(try member(answer, "type") == "urn:apus:problem:unavailable")
            #expect(answer.header("retry-after") == "2")
            #expect(!answer.text.lowercased().contains("redis"))
            let admin = try await HTTPConnection.open(port: fixture.adminPort)
            #expect(try await admin.ask("GET", "/readyz").status == 503)
            await admin.close()
        }
    }
}
