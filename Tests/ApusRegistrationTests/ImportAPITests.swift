import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import NIOPosix
import Testing

@testable import ApusRegistration

private let path = "/v1/apps/shop/devices:import"
private let newsPath = "/v1/apps/news/devices:import"
private let ndjson = ("content-type", "application/x-ndjson")

private func answers(_ answer: Answer) throws -> [JSONValue] {
    try answer.text.split(separator: "\n").map { try JSONValue(parsing: String($0), bytesMax: 1 << 16) }
}

@Suite struct ImportAPITests {
    @Test func eachLineHasItsAnswerInOrder() async throws {
        try await Fixture.with { fixture in
            let lines = [
                #"{"device":"a","provider":"fcm","token":"t-a","user":"anna","topics":["x"]}"#,
                "",
                #"{"device":"b","provider":"fax","token":"t-b"}"#,
                "{",
                #"{"provider":"fcm","token":"t-c"}"#,
                #"{"device":"d","provider":"fcm","token":"\#(String(repeating: "t", count: 150_000))"}"#,
                #"{"device":"a","provider":"fcm","token":"t-a2","user":"anna"}"#,
            ]
            let answer = try await fixture.ask("POST", path, lines.joined(separator: "\n"), [ndjson])
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "application/x-ndjson")
            let told = try answers(answer)
            #expect(told.compactMap { $0["line"]?.int64 } == [1, 3, 4, 5, 6, 7])
            #expect(told.compactMap { $0["status"]?.int64 } == [201, 422, 400, 422, 413, 200])
            #expect(told[1]["errors"]?.array?.first?["pointer"] == "#/provider")
            #expect(told[3]["errors"]?.array?.first?["pointer"] == "#/device")
            // The same device twice: the last line counts.
            #expect(told[5]["device"] == "a")
            let stored = try await fixture.store.get(try AppID("shop"), try DeviceID("a"))
            #expect(stored?.record.token == Array("t-a2".utf8))
            #expect(stored?.record.topics.count == 1)
        }
    }

    @Test func `A line with a misspelt member is refused with its number and place, and the others go on`() async throws
    {
        try await Fixture.with { fixture in
            let lines = [
                #"{"device":"a","provider":"fcm","token":"t-a"}"#,
                #"{"device":"b","provider":"fcm","token":"t-b","usr":"ada"}"#,
                #"{"device":"c","provider":"fcm","token":"t-c","attributes":{"locle":"en"}}"#,
                #"{"device":"d","provider":"fcm","token":"t-d"}"#,
            ]
            let told = try answers(try await fixture.ask("POST", path, lines.joined(separator: "\n"), [ndjson]))
            func errors(_ line: Int64) -> [String?] {
                told.first { $0["line"]?.int64 == line }?["errors"]?.array?.flatMap {
                    [$0["pointer"]?.string, $0["detail"]?.string]
                } ?? []
            }
            #expect(told.map { $0["status"]?.int64 } == [201, 422, 422, 201])
            #expect(errors(2) == ["#/usr", "is not a known member; did you mean user?"])
            #expect(errors(3) == ["#/attributes/locle", "is not a known member; did you mean locale?"])
            #expect(try await fixture.store.get(try AppID("shop"), try DeviceID("b")) == nil)
        }
    }

    @Test func `A line of an earlier time than the device's registration changes nothing, and one to come is of now`()
        async throws
    {
        try await Fixture.with { fixture in
            let now = try await fixture.store.register(
                AppID("shop"),
                DeviceRegistration(device: "a", provider: .fcm, token: "new-a"),
            ).device.registeredAt
            func line(_ device: String, _ token: String, _ time: Int64) -> String {
                #"{"device":"\#(device)","provider":"fcm","token":"\#(token)","badge":7,"registered_at_ms":\#(time)}"#
            }
            let hourAgo = now.value - 3_600_000
            let lines = [
                line("a", "old-a", hourAgo), line("former-a", "new-a", hourAgo), line("b", "b-1", hourAgo + 1),
                line("b", "b-2", hourAgo + 2), line("b", "b-3", hourAgo), line("c", "c-1", Limits.timeMax.value),
            ]
            let told = try answers(try await fixture.ask("POST", path, lines.joined(separator: "\n"), [ndjson]))
            #expect(told.compactMap { $0["status"]?.int64 } == [200, 200, 201, 200, 200, 201])
            func stored(_ device: String) async throws -> StoredDevice? {
                try await fixture.store.get(AppID("shop"), DeviceID(device))
            }
            let first = try #require(try await stored("a"))
            let second = try #require(try await stored("b"))
            let third = try #require(try await stored("c"))
            #expect(first.record.token == Array("new-a".utf8) && first.registeredAt == now)
            #expect(try await fixture.store.badge(of: first) == 0)
            #expect(try await stored("former-a") == nil)
            #expect(second.record.token == Array("b-2".utf8))
            #expect(second.registeredAt == UnixMilliseconds(hourAgo + 2))
            #expect(third.registeredAt >= now && third.registeredAt < Limits.timeMax)
        }
    }

    @Test func `A line that was taken before undoes nothing that its device has changed since`() async throws {
        try await Fixture.with { fixture in
            let members = #""topics":["news"],"attributes":{"country":"DE"},"badge":7,"registered_at_ms":1700000000000"#
            let line = #"{"device":"a","provider":"fcm","token":"t-a",\#(members)}"#
            func take() async throws -> Int64? {
                try answers(try await fixture.ask("POST", path, line, [ndjson])).first?["status"]?.int64
            }
            func stored() async throws -> StoredDevice {
                try #require(try await fixture.store.get(AppID("shop"), DeviceID("a")))
            }
            #expect(try await take() == 201)
            #expect(try await fixture.store.badge(of: try await stored()) == 7)
            let left = try await fixture.ask("POST", "\(Fixture.path("a"))/topics", #"{"unsubscribe":["news"]}"#)
            let merge = ("content-type", "application/merge-patch+json")
            let patch = #"{"badge":0,"attributes":{"country":"NZ"}}"#
            let opened = try await fixture.ask("PATCH", Fixture.path("a"), patch, [merge])
            #expect(left.status == 200 && opened.status == 200)
            let changed = try await stored()
            #expect(changed.record.topics.isEmpty && changed.record.attributes.country == "NZ")
            #expect(try await take() == 200)
            let kept = try await stored()
            #expect(kept == changed)
            #expect(try await fixture.store.badge(of: kept) == 0)
        }
    }

    @Test func `The line of a newer export says who has logged out and in since the one before it`() async throws {
        try await Fixture.with { fixture in
            let (store, shop, news, id) = (fixture.store, try AppID("shop"), try AppID("news"), try DeviceID("a"))
            func time(_ milliseconds: Int64) -> UnixMilliseconds { UnixMilliseconds(1_700_000_000_000 + milliseconds) }
            /// Carries the app's devices over, and returns whose the device is there.
            func carry() async throws -> String? {
                var line: [UInt8] = []
                try await store.forEachDevice(shop) { devices in
                    for device in devices { DeviceLine.append(device, to: &line) }
                }
                let lines = String(decoding: line, as: UTF8.self)
                let answer = try await fixture.ask("POST", newsPath, lines, key: Fixture.newsKey, [ndjson])
                let status = try answers(answer).first?["status"]?.int64
                #expect(status == 200 || status == 201)
                return try await store.get(news, id)?.record.user
            }
            var registration = DeviceRegistration(device: "a", provider: .fcm, token: "t-a")
            registration.user = "anna"
            _ = try await store.register(shop, registration, asOf: time(0))
            // With a badge, a line is taken in two steps.
            _ = try await store.setBadge(shop, id, to: 7)
            #expect(try await carry() == "anna")
            _ = try await store.unbindUser(shop, id, asOf: time(1))
            #expect(try await carry() == "")
            #expect(try await carry() == "")
            _ = try await store.bindUser(shop, id, UserID("bert"), asOf: time(2))
            #expect(try await carry() == "bert")
            let (old, new) = (try await store.get(shop, id), try await store.get(news, id))
            #expect(new?.registeredAt == old?.registeredAt && new?.changedAt == old?.changedAt)
            // A log-out that is only known where the export was imported stays.
            _ = try await store.unbindUser(news, id, asOf: time(3))
            #expect(try await carry() == "")
        }
    }

    @Test func `A device with as many and as long topics as may be comes back from its export`() async throws {
        try await Fixture.with { fixture in
            #expect(try await fixture.ask("PUT", Fixture.path("a"), #"{"provider":"fcm","token":"t-a"}"#).status == 201)
            let names = (100..<100 + Limits.topicsPerDeviceMax).map {
                "\($0)" + String(repeating: "n", count: Limits.topicNameBytesMax - 3)
            }
            // Ten of them are less than a request may have.
            for start in stride(from: 0, to: names.count, by: 10) {
                let list = names[start..<start + 10].map { "\"\($0)\"" }.joined(separator: ",")
                let body = #"{"subscribe":[\#(list)]}"#
                #expect(try await fixture.ask("POST", "\(Fixture.path("a"))/topics", body).status == 200)
            }
            var line: [UInt8] = []
            try await fixture.store.forEachDevice(AppID("shop")) { devices in
                for device in devices { DeviceLine.append(device, to: &line) }
            }
            #expect(line.count > Limits.topicsPerDeviceMax * Limits.topicNameBytesMax)

            let lines = String(decoding: line, as: UTF8.self)
            let answer = try await fixture.ask("POST", newsPath, lines, key: Fixture.newsKey, [ndjson])
            #expect(try answers(answer).map { $0["status"]?.int64 } == [201])
            let news = try AppID("news")
            let imported = try #require(try await fixture.store.get(news, DeviceID("a")))
            let topics = try await fixture.store.topicNames(news, imported.record.topics)
            #expect(topics.map { $0?.text ?? "" }.sorted() == names)
        }
    }

    @Test func `A line that was interrupted before its badge was set is carried out to its end`() async throws {
        try await Fixture.with { fixture in
            let time = UnixMilliseconds(1_700_000_000_000)
            let registration = DeviceRegistration(device: "a", provider: .fcm, token: "t-a")
            let app = try AppID("shop")
            _ = try await fixture.store.register(app, registration, asOf: time.advanced(byMilliseconds: -1))
            func line(_ token: String, badge: String = "") -> String {
                #"{"device":"a","provider":"fcm","token":"\#(token)"\#(badge),"registered_at_ms":\#(time.value)}"#
                    + "\n"
            }
            let badge = #","badge":7"#
            let taken = try answers(try await fixture.ask("POST", path, line("t-a", badge: badge), [ndjson]))
            #expect(taken.first?["status"]?.int64 == 200)
            let device = try #require(try await fixture.store.get(app, DeviceID("a")))
            #expect(device.registeredAt == time)
            #expect(try await fixture.store.badge(of: device) == 7)

            // Another token of that time is another registration, and lines take effect in their order.
            let other = #","badge":8"#
            let lines = line("t-b", badge: other) + line("t-c")
            #expect(try answers(try await fixture.ask("POST", path, lines, [ndjson])).count == 2)
            let changed = try #require(try await fixture.store.get(app, DeviceID("a")))
            #expect(String(decoding: changed.record.token, as: UTF8.self) == "t-c" && changed.registeredAt == time)
            #expect(try await fixture.store.badge(of: changed) == 8)
        }
    }

    @Test func `Of two lines with one device, token and time the first counts, also with a badge`() async throws {
        try await Fixture.with { fixture in
            func line(_ members: String) -> String {
                #"{"device":"a","provider":"fcm","token":"t-a","registered_at_ms":1700000000000,\#(members)}"#
            }
            let lines = [line(#""user":"anna","badge":7"#), line(#""user":"bert""#)]
            let told = try answers(try await fixture.ask("POST", path, lines.joined(separator: "\n"), [ndjson]))
            #expect(told.map { $0["status"]?.int64 } == [201, 200])
            let device = try #require(try await fixture.store.get(AppID("shop"), DeviceID("a")))
            #expect(device.record.user == "anna" && device.registeredAt == UnixMilliseconds(1_700_000_000_000))
            #expect(try await fixture.store.badge(of: device) == 7)
        }
    }

    @Test func manyDevicesComeThroughOneRequest() async throws {
        try await Fixture.with { fixture in
            let count = 1_500
            let lines = (0..<count).map { #"{"device":"d\#($0)","provider":"fcm","token":"t\#($0)","topics":["all"]}"# }
            let answer = try await fixture.ask("POST", path, lines.joined(separator: "\n") + "\n", [ndjson])
            let told = try answers(answer)
            #expect(told.count == count)
            #expect(told.allSatisfy { $0["status"] == 201 })
            let topic = try #require(try await fixture.store.topicNumber(try AppID("shop"), try TopicName("all")))
            let last = try await fixture.store.get(try AppID("shop"), try DeviceID("d\(count - 1)"))
            #expect(last?.record.topics == [topic])
        }
    }

    /// Python's `http.client` sends the whole body before it reads: more than the buffers of both sockets hold, in both directions.
    @Test func aClientThatSendsItsWholeBodyFirstGetsEveryAnswer() async throws {
        try await Fixture.with { fixture in
            let script = """
                import http.client, json, sys
                count = 40000
                last = {"device": "last", "provider": "fcm", "token": "t"}
                lines = ['{"device": "d", "padding": "%s"}' % ("x" * 300)] * count + [json.dumps(last)]
                connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=300)
                headers = {"authorization": "Bearer " + sys.argv[2], "content-type": "application/x-ndjson"}
                connection.request("POST", sys.argv[3], "\\n".join(lines).encode(), headers)
                answers = connection.getresponse().read().splitlines()
                assert [json.loads(answer)["line"] for answer in answers] == list(range(1, count + 2))
                print(sum(map(len, answers)) > 6000000, json.loads(answers[-1])["status"])
                """
            let python = Process()
            python.executableURL = URL(filePath: "/usr/bin/env")
            python.arguments = ["python3", "-c", script, "\(fixture.port)", Fixture.shopKey, path]
            let output = Pipe()
            python.standardOutput = output
            python.standardError = output
            try python.run()
            // On a thread of its own: the service needs those of tasks.
            let text = try await NIOThreadPool.singleton.runIfActive {
                output.fileHandleForReading.readDataToEndOfFile()
            }
            #expect(String(decoding: text, as: UTF8.self) == "True 201\n")
        }
    }

    @Test func itIsForBackendsAndOfItsType() async throws {
        try await Fixture.with { fixture in
            let line = #"{"device":"a","provider":"fcm","token":"t"}"#
            let anna = try Fixture.token("anna")
            #expect(try await fixture.ask("POST", path, line, key: anna, [ndjson]).status == 403)
            #expect(try await fixture.ask("POST", path, line, key: Fixture.publishKey, [ndjson]).status == 403)
            #expect(try await fixture.ask("POST", path, line, key: Fixture.newsKey, [ndjson]).status == 401)
            #expect(try await fixture.ask("POST", path, line).status == 415)
            #expect(try await fixture.ask("GET", path).status == 405)
            #expect(try await fixture.ask("GET", Fixture.path("a")).status == 404)
        }
    }
}
