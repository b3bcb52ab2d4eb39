import ApusCore
import ApusMessages
import ApusStore
import ApusTestKit
import Synchronization
import Testing

/// Accounts that ask without end, for what is not theirs.
@Suite struct HostileClientTests {
    private final class Counter: Sendable {
        private let count = Mutex(0)
        var value: Int { self.count.withLock { $0 } }
        func add() { self.count.withLock { $0 += 1 } }
    }

    private static let accounts = 50
    private static let others = 10
    /// Each account asks until it has been refused for its rate, and this often at most.
    private static let requestsMax = 1_000

    @Test func `Fifty accounts at full rate change nothing of other users, who are answered meanwhile`() async throws {
        try await Fixture.with(settings: "  client_rate_per_second: 1") { fixture in
            for index in 0..<Self.others {
                let body = #"{"provider":"fcm","token":"t\#(index)","user":"good-\#(index)","topics":["news"]}"#
                #expect(try await fixture.ask("PUT", Fixture.path("own-\(index)"), body).status == 201)
            }
            let goodAnswered = Counter()
            let statuses = try await withThrowingTaskGroup(of: [Int].self) { group in
                for account in 0..<Self.accounts {
                    group.addTask {
                        let key = try Fixture.token("bad-\(account)")
                        var statuses: [Int] = []
                        // On until everybody else was answered, so that they are answered in the middle of it.
                        while statuses.count < Self.requestsMax,
                            !statuses.contains(429) || goodAnswered.value < Self.others
                        {
                            let path = Fixture.path("own-\(statuses.count % Self.others)")
                            let theft = #"{"provider":"fcm","token":"bad","user":"bad-\#(account)"}"#
                            let answer =
                                switch statuses.count % 3 {
                                case 0: try await fixture.ask("PUT", path, theft, key: key)
                                case 1: try await fixture.ask("DELETE", path, key: key)
                                default: try await fixture.ask("GET", path, key: key)
                                }
                            statuses.append(answer.status)
                        }
                        return statuses
                    }
                }
                for index in 0..<Self.others {
                    group.addTask {
                        let key = try Fixture.token("good-\(index)")
                        let answer = try await fixture.ask("GET", Fixture.path("own-\(index)"), key: key)
                        #expect(answer.status == 200)
                        goodAnswered.add()
                        return []
                    }
                }
                return try await group.reduce(into: [[Int]]()) { $0.append($1) }.filter { !$0.isEmpty }
            }
            #expect(statuses.count == Self.accounts)
            // Every account was told to wait, and none was given what is another's: 204 is the answer to a DELETE of what is not there.
            #expect(statuses.allSatisfy { $0.contains(429) })
            #expect(Set(statuses.joined()).isSubset(of: [204, 403, 404, 429]), "\(Set(statuses.joined()).sorted())")
            let shop = try AppID("shop")
            for index in 0..<Self.others {
                let device = try #require(try await fixture.store.get(shop, try DeviceID("own-\(index)")))
                #expect(device.record.user == "good-\(index)" && device.record.token == Array("t\(index)".utf8))
                let devices = try await fixture.store.devices(shop, ofUser: try UserID("good-\(index)"))
                #expect(devices.map(\.id) == ["own-\(index)"])
            }
            for account in 0..<Self.accounts {
                #expect(try await fixture.store.devices(shop, ofUser: try UserID("bad-\(account)")).isEmpty)
            }
        }
    }
}
