import ApusBuiltInProviders
import ApusCommand
import ApusCore
import ApusMessages
import ApusTestKit
import Testing

@Suite struct SendArgumentsTests {
    private static let now = UnixMilliseconds(1_764_072_000_000)

    init() { BuiltInProviders.install() }

    private func order(_ change: (inout SendArguments) -> Void) -> SendArguments {
        var order = SendArguments()
        order.app = "shop"
        order.title = "Hello"
        change(&order)
        return order
    }

    private func usageError(_ order: SendArguments) -> String {
        do {
            _ = try order.command(now: Self.now)
            return ""
        } catch {
            return error.description
        }
    }

    @Test func `All options become fields of a command`() throws {
        let command = try self.order {
            $0.topic = "news"
            $0.body = "World"
            $0.data = ["a=1", "b=x=y", "c="]
            $0.ttl = "5m"
            $0.id = "send-1"
            $0.key = "key-1"
        }.command(now: Self.now)
        #expect(command.app == "shop")
        #expect(command.target == .topic("news"))
        #expect(command.notification.title == "Hello")
        #expect(command.notification.body == "World")
        #expect(command.notification.data == ["a": "1", "b": "x=y", "c": ""])
        #expect(command.notification.expiry == .ttl(milliseconds: 300_000))
        #expect(command.id == "send-1")
        #expect(command.idempotencyKey == "key-1")
    }

    @Test func `Each kind of target is read`() throws {
        #expect(try self.order { $0.devices = ["a", "b"] }.command(now: Self.now).target == .devices(["a", "b"]))
        #expect(try self.order { $0.users = ["ada"] }.command(now: Self.now).target == .users(["ada"]))
        #expect(
            try self.order { $0.condition = "'a' in topics" }.command(now: Self.now).target
                == .condition("'a' in topics")
        )
        #expect(try self.order { $0.everyone = true }.command(now: Self.now).target == .everyone([]))
        var sandbox = Address(provider: .apns, token: "cd")
        sandbox.environment = .sandbox
        #expect(
            try self.order { $0.addresses = ["apns:ab", "apns-sandbox:cd", "fcm:e:f"] }.command(now: Self.now).target
                == .addresses([Address(provider: .apns, token: "ab"), sandbox, Address(provider: .fcm, token: "e:f")])
        )
    }

    @Test func `An address is of the kind that the notification goes to, where its provider has that kind`() throws {
        let call = self.order {
            $0.addresses = ["apns:ab", "fcm:t"]
            $0.notification.kind = .voip
        }
        guard case .addresses(let addresses) = try call.command(now: Self.now).target else {
            Issue.record("another target")
            return
        }
        #expect(addresses.map(\.kind) == [.voip, .device])
    }

    @Test func `D72 No target, and any two kinds of target, are refused`() {
        #expect(self.usageError(self.order { _ in }).contains("exactly one kind"))
        let kinds: [(inout SendArguments) -> Void] = [
            { $0.devices = ["d"] }, { $0.users = ["u"] }, { $0.addresses = ["fcm:t"] }, { $0.topic = "news" },
            { $0.condition = "'a' in topics" }, { $0.audience = "locale == 'en'" }, { $0.everyone = true },
            { $0.fcmTopic = "news" }, { $0.fcmCondition = "'a' in topics" }, { $0.fcmGroup = "key" },
        ]
        for (first, one) in kinds.enumerated() {
            #expect(self.usageError(self.order(one)) == "")
            for other in kinds[(first + 1)...] {
                let two = self.order {
                    one(&$0)
                    other(&$0)
                }
                #expect(self.usageError(two).contains("exactly one kind"))
            }
        }
    }

    @Test func `When and how to send becomes fields of a command`() throws {
        let command = try self.order {
            $0.topic = "news"
            $0.notBefore = "2025-11-25T13:00:00+01:00"
            $0.ratePerSecond = 500
            $0.delivery = .atMostOnce
            $0.receipts = .recipients
            $0.replyTo = "apus:receipts:shop"
        }.command(now: Self.now)
        #expect(command.notBefore == UnixMilliseconds(1_764_072_000_000))
        #expect(command.ratePerSecond == 500)
        #expect(command.delivery == .atMostOnce)
        #expect(command.receiptLevel == .recipients)
        #expect(command.replyTo == "apus:receipts:shop")
        let later = try self.order {
            $0.topic = "news"
            $0.notBefore = "2h"
        }.command(now: Self.now)
        #expect(later.notBefore == Self.now.advanced(byMilliseconds: 7_200_000))
    }

    @Test func `What every dispatcher would refuse is refused with the name of its option`() {
        let cases: [((inout SendArguments) -> Void, String)] = [
            ({ $0.condition = "'a' on topics" }, "--condition: expected in topics"),
            ({ $0.audience = "shoesize == 4" }, "--audience: "),
            ({ $0.topic = "a b" }, "--topic: "),
            ({ $0.devices = ["d", ""] }, "--device [1]: "),
            ({ $0.fcmCondition = "'a'" }, "--fcm-condition: expected in topics"),
            (
                {
                    $0.topic = "news"
                    $0.replyTo = "receipts"
                }, "--reply-to: a reply stream must begin with \"apus:receipts:\""
            ),
            (
                {
                    $0.topic = "news"
                    $0.notBefore = "tomorrow"
                }, "--not-before is a time such as"
            ),
            (
                {
                    $0.topic = "news"
                    $0.notBefore = "1990-01-01T00:00:00Z"
                }, "--not-before: must be in milliseconds since 1970"
            ),
            (
                {
                    $0.topic = "news"
                    $0.ttl = "1h"
                    $0.notBefore = "2h"
                }, "--ttl: ends at 2025-11-25T13:00:00Z, not after the start at 2025-11-25T14:00:00Z"
            ),
            (
                {
                    $0.topic = "news"
                    $0.notification.image = "http://shop.example/a.png"
                }, "--notification image: must be an https URL"
            ),
            (
                {
                    $0.topic = "news"
                    $0.title = String(repeating: "t", count: Limits.textBytesMax + 1)
                }, "--title: must be at most"
            ),
            (
                {
                    $0.topic = "news"
                    $0.body = "b"
                    $0.title = ""
                    $0.notification.kind = .background
                }, "--body: cannot be used here"
            ),
            (
                {
                    $0.topic = "news"
                    $0.title = ""
                    $0.notification.title = "t"
                    $0.notification.kind = .background
                }, "--notification title: cannot be used here"
            ),
        ]
        for (change, expected) in cases {
            let error = self.usageError(self.order(change))
            #expect(error.hasPrefix(expected), "\(error)")
        }
    }

    @Test func `A notification from a file is sent with the changes that the options make`() throws {
        var said = Notification()
        said.title = "File"
        said.body = "Text"
        said.priority = .normal
        said.data = ["a": "1", "b": "2"]
        said.expiry = .ttl(milliseconds: 1)
        let plain = try self.order {
            $0.title = ""
            $0.topic = "news"
            $0.notification = said
        }.command(now: Self.now)
        #expect(plain.notification == said)
        let changed = try self.order {
            $0.title = "Option"
            $0.topic = "news"
            $0.data = ["b=3"]
            $0.ttl = "5m"
            $0.notification = said
        }.command(now: Self.now)
        said.title = "Option"
        said.data = ["a": "1", "b": "3"]
        said.expiry = .ttl(milliseconds: 300_000)
        #expect(changed.notification == said)
    }

    @Test func `A notification's file has the HTTP API's names, and an error names its place`() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(
            "n.json",
            #"{"title":"Hi","priority":"low","collapse_key":"score","apns_json":{"aps":{"badge":1}},"ttl_ms":0}"#
        )
        var expected = Notification()
        expected.title = "Hi"
        expected.priority = .low
        expected.collapseKey = "score"
        expected.apnsJSON = #"{"aps":{"badge":1}}"#
        expected.expiry = .ttl(milliseconds: 0)
        #expect(try NotificationFile.read(file) == expected)
        for (text, expected) in [
            (#"{"titel":"A"}"#, "/titel is not a known member; did you mean title?"),
            (#"{"priority":"now"}"#, "/priority must be"),
            (#"{"sound":{"critical":1}}"#, "/sound/critical must be"),
            ("[]", "it must be an object"), ("{", "is not JSON"), (#"{"title":5}"#, "/title must be a string"),
        ] {
            let wrong = try folder.write("wrong.json", text)
            let error = #expect(throws: SendArguments.UsageError.self) { _ = try NotificationFile.read(wrong) }
            #expect(error?.description.contains(expected) == true, "\(text): \(error?.description ?? "")")
        }
        let huge = try folder.write("huge.json", #"{"body":""# + String(repeating: "x", count: 400_000) + #""}"#)
        #expect(throws: SendArguments.UsageError.self) { _ = try NotificationFile.read(huge) }
        // Files that are not regular are read, too, up to the limit.
        for (path, expected) in [
            ("/dev/zero", "is not JSON"), ("/nowhere/n.json", "cannot be read: no such file"),
            (folder.path, "cannot be read: is a directory"),
        ] {
            let error = #expect(throws: SendArguments.UsageError.self) { _ = try NotificationFile.read(path) }
            #expect(error?.description.contains(expected) == true, "\(path): \(error?.description ?? "")")
        }
        withExtendedLifetime(folder) {}
    }

    @Test func `A send is repeated with the id that it got and the time that it was given`() throws {
        func advice(_ change: (inout SendArguments) -> Void) throws -> String {
            let order = self.order {
                $0.topic = "news"
                change(&$0)
            }
            var command = try order.command(now: Self.now.advanced(byMilliseconds: 45))
            if command.id.isEmpty { command.id = "s0" }
            return order.adviceOnRepeating(command)
        }
        #expect(try advice { _ in } == "It is safe to repeat this with --id s0")
        #expect(try advice { $0.id = "order-17" } == "It is safe to repeat this as it is")
        #expect(try advice { $0.key = "k" } == "It is safe to repeat this as it is")
        #expect(try advice { $0.notBefore = "2025-12-25T12:00:00Z" } == "It is safe to repeat this with --id s0")
        let later = try advice {
            $0.key = "k"
            $0.notBefore = "2h"
        }
        #expect(later == "It is safe to repeat this with --not-before 2025-11-25T14:00:00.045Z")
        // It is the same command then.
        let again = self.order {
            $0.topic = "news"
            $0.notBefore = "2025-11-25T14:00:00.045Z"
        }
        #expect(try again.command(now: Self.now).notBefore == Self.now.advanced(byMilliseconds: 7_200_045))
    }

    @Test func `An empty notification is refused`() {
        let empty = self.order {
            $0.title = ""
            $0.everyone = true
        }
        #expect(self.usageError(empty).contains("notification is empty"))
    }

    @Test(arguments: ["apns", "apns:", "post:ab", ":ab"])
    func `An address without provider or token is refused`(_ address: String) {
        #expect(self.usageError(self.order { $0.addresses = [address] }).contains("--address"))
    }

    @Test(arguments: [("30", 30_000), ("30s", 30_000), ("2h", 7_200_000), ("1d", 86_400_000), ("0", 0)])
    func `A time to live has a unit, or is in seconds`(_ text: String, _ milliseconds: Int64) throws {
        let order = self.order {
            $0.everyone = true
            $0.ttl = text
        }
        #expect(try order.command(now: Self.now).notification.expiry == .ttl(milliseconds: milliseconds))
    }

    @Test(arguments: ["", "s", "-1s", "5x", "1.5h", "9223372036854775807d"])
    func `Other times to live are refused`(_ text: String) {
        let order = self.order {
            $0.everyone = true
            $0.ttl = text
        }
        #expect(self.usageError(order).contains("--ttl"))
    }

    @Test func `Names that break their rule are refused`() {
        func error(_ change: (inout SendArguments) -> Void) -> String {
            self.usageError(
                self.order {
                    $0.topic = "news"
                    change(&$0)
                }
            )
        }
        #expect(error { $0.app = "Shop" }.contains("not a valid app"))
        #expect(error { $0.id = "a b" }.contains("not a valid send id"))
        #expect(error { $0.data = ["nothing"] }.contains("--data"))
    }
}
