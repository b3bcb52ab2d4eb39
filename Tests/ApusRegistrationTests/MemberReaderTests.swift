import ApusCore
import ApusMessages
import ApusStore
import ApusStreams
import Testing

@testable import ApusRegistration

/// The pointers and details of a problem's parts, each as one text.
private func breaches(_ read: () throws -> Void) -> [String] {
    do {
        try read()
        return []
    } catch let problem as ProblemDetails {
        return problem.parts.map { "\($0.pointer) \($0.detail)" }
    } catch {
        return ["\(error)"]
    }
}

@Suite struct MemberReaderTests {
    private static let unknown = "is not a known member"
    private static let now = UnixMilliseconds(1_764_072_000_000)

    private func send(_ text: String) -> [String] {
        breaches { _ = try SendBody.read(Array(text.utf8), as: .json, app: try AppID("shop"), now: Self.now) }
    }

    private func device(_ text: String) -> [String] {
        breaches {
            _ = try RegistrationBody.read(
                Array(text.utf8),
                as: .json,
                device: try DeviceID("d"),
                hosts: EndpointHosts(),
            )
        }
    }

    @Test func `The mistakes of a body are named up to a maximum, and the last says that there are more`() throws {
        func topics(_ count: Int) -> String {
            let numbers = Array(repeating: "1", count: count).joined(separator: ",")
            return #"{"provider":"fcm","token":"t","topics":[\#(numbers)]}"#
        }
        let most = self.device(topics(ProblemDetails.partsMax))
        #expect(most.count == ProblemDetails.partsMax && most.last == "#/topics/99 must be a string")
        for count in [ProblemDetails.partsMax + 1, 8_000] {
            let parts = self.device(topics(count))
            #expect(parts.count == ProblemDetails.partsMax + 1)
            #expect(parts.prefix(ProblemDetails.partsMax) == most[...])
            #expect(parts.last == "# has further mistakes, which are not named")
        }
        // Mistakes of objects within count too.
        let wrong = Array(repeating: #"{"title":1,"body":2}"#, count: 200).joined(separator: ",")
        let parts = self.send(#"{"target":{"topic":"a"},"notification":{"title":"A","variants":[\#(wrong)]}}"#)
        #expect(parts.count <= ProblemDetails.partsMax + 1)
        let line = Array((#"{"device":"d","# + topics(8_000).dropFirst()).utf8)
        let refused = #expect(throws: ProblemDetails.self) {
            try RegistrationBody.read(line: line, hosts: EndpointHosts()) { _ in }
        }
        var text: [UInt8] = []
        ImportAnswer(line: 1, .failure(try #require(refused))).append(to: &text)
        #expect(text.count < 8 * 1_024, "\(text.count) bytes")
    }

    @Test func `A misspelt member of a send is refused at every level, with what was meant`() {
        let target = #""target":{"topic":"news"}"#
        for (text, expected) in [
            (
                #"{"dryrun":true,\#(target),"notification":{"title":"A"}}"#,
                "#/dryrun \(Self.unknown); did you mean dry_run?"
            ),
            (
                #"{\#(target),"notification":{"titel":"A"}}"#,
                "#/notification/titel \(Self.unknown); did you mean title?"
            ),
            (
                #"{\#(target),"title":"A","notification":{}}"#,
                "#/title \(Self.unknown); did you mean notification/title?"
            ),
            (
                #"{\#(target),"notification":{"sound":{"nam":"x"}}}"#,
                "#/notification/sound/nam \(Self.unknown); did you mean name?"
            ),
            (
                #"{\#(target),"notification":{"variants":[{"locale":"de","titl":"x"}]}}"#,
                "#/notification/variants/0/titl \(Self.unknown); did you mean title?"
            ),
            (
                #"{"target":{"addresses":[{"provider":"fcm","token":"t","lokale":"de"}]},"notification":{}}"#,
                "#/target/addresses/0/lokale \(Self.unknown); did you mean locale?"
            ),
            (
                #"{"target":{"everyone":{"provider":["fcm"]}},"notification":{}}"#,
                "#/target/everyone/provider \(Self.unknown); did you mean providers?"
            ),
        ] {
            #expect(self.send(text) == [expected], "\(text)")
        }
    }

    @Test func `A misspelt member of a registration is refused, and one that belongs into attributes`() {
        let token = #""provider":"fcm","token":"t""#
        #expect(self.device(#"{\#(token),"topcs":["a"]}"#) == ["#/topcs \(Self.unknown); did you mean topics?"])
        #expect(self.device(#"{\#(token),"usr":"a"}"#) == ["#/usr \(Self.unknown); did you mean user?"])
        #expect(
            self.device(#"{\#(token),"timezone":"UTC"}"#)
                == ["#/timezone \(Self.unknown); did you mean attributes/time_zone?"]
        )
        #expect(
            self.device(#"{\#(token),"attributes":{"contry":"DE"}}"#)
                == ["#/attributes/contry \(Self.unknown); did you mean country?"]
        )
        #expect(self.device(#"{\#(token),"attributes":{"timeZone":"UTC"}}"#).isEmpty)
        #expect(self.device(#"{\#(token),"registered_at_ms":1}"#).count == 1)
    }

    @Test func `Every other body refuses an unknown member`() throws {
        let (app, device) = (try AppID("shop"), try DeviceID("d"))
        let now = UnixMilliseconds(1_800_000_000_000)
        func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
        let reads: [(String, () throws -> Void)] = [
            ("#/usr", { _ = try DevicePatch(bytes(#"{"usr":"a"}"#)) }),
            ("#/attributes/tag", { _ = try DevicePatch(bytes(#"{"attributes":{"tag":[]}}"#)) }),
            ("#/topic", { _ = try TopicChange(replacing: bytes(#"{"topics":[],"topic":"a"}"#)) }),
            ("#/subscribed", { _ = try TopicChange(changing: bytes(#"{"subscribe":[],"subscribed":[]}"#)) }),
            ("#/titel", { _ = try TestBody(bytes(#"{"titel":"a"}"#)) }),
            (
                "#/expires_at",
                {
                    let body = bytes(#"{"kind":"live_activity_update","token":"ab","expires_at":1}"#)
                    _ = try ActivityBody.read(body, activity: "a", now: now)
                }
            ),
            (
                "#/events/0/at",
                {
                    let body = bytes(#"{"events":[{"id":"1","send":"s","kind":"opened","at":1}]}"#)
                    _ = try EventsBody.read(body, app: app, device: device, now: now)
                }
            ),
        ]
        for (pointer, read) in reads {
            let found = breaches(read)
            #expect(found.count == 1 && found[0].hasPrefix("\(pointer) \(Self.unknown)"), "\(pointer): \(found)")
        }
    }

    @Test func `Lines of an export are imported, and their misspelt members are refused`() throws {
        let hosts = EndpointHosts()
        let line =
            #"{"device":"d","provider":"fcm","token":"t","registered_at_ms":5,"changed_at_ms":6,"activities":[]"#
        let read = try DeviceLine(parsing: Array((line + "}").utf8), hosts: hosts)
        #expect(read.registeredAt == UnixMilliseconds(5) && read.changedAt == UnixMilliseconds(6))
        let mistake = #expect(throws: InvalidJSON.self) {
            _ = try DeviceLine(parsing: Array((line + #","usr":"a"}"#).utf8), hosts: hosts)
        }
        #expect(mistake?.description == "/usr \(Self.unknown); did you mean user?")
    }

    @Test func `Data, overrides and what a browser adds to a subscription are free`() {
        let free = #"{"target":{"topic":"a"},"notification":{"data":{"x":"1"},"apns_json":{"aps":{"y":1}}}}"#
        #expect(self.send(free).isEmpty)
        let subscription = #""endpoint":"https://web.push.apple.com/1","contentEncoding":"aes128gcm","keys":{"more":1}"#
        let found = self.device(#"{"provider":"webpush","subscription":{\#(subscription)}}"#)
        #expect(!found.contains { $0.contains(Self.unknown) }, "\(found)")
    }

    @Test func `Names are escaped, long ones are not repeated, and their number has a limit`() {
        var object: JSONObject = ["a/b ~": 1]
        #expect(MemberReader(object).finish().map(\.pointer) == ["#/a~1b%20~0"])
        object = [:]
        object[String(repeating: "x", count: 65)] = 1
        #expect(MemberReader(object).finish().map(\.pointer) == ["#"])
        object = [:]
        for number in 0..<20 { object["x\(number)"] = 1 }
        #expect(MemberReader(object).finish().count == MemberReader.unknownMax + 1)
        #expect(MemberReader(object, isOpen: true).finish().isEmpty)
    }

    @Test func `A misspelt member is a 422 over HTTP, and nothing is sent`() async throws {
        try await Fixture.with { fixture in
            let body = #"{"dryrun":true,"target":{"topic":"a"},"notification":{"title":"Hi"}}"#
            let answer = try await fixture.ask("POST", "/v1/apps/shop/sends", body, key: Fixture.publishKey)
            #expect(answer.status == 422, "\(answer.text)")
            #expect(answer.text.contains("did you mean dry_run?"), "\(answer.text)")
            #expect(try await fixture.messages { $0.mailbox(.bulk) }.isEmpty)
            let put = #"{"provider":"fcm","token":"t","topcs":["a"]}"#
            #expect(try await fixture.ask("PUT", Fixture.path("d1"), put).status == 422)
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
        }
    }
}
