import ApusCommand
import ApusCore
import ApusMessages
import ApusRegistration
import Testing

/// Tests conversions of other systems' exports.
@Suite struct ForeignExportTests {
    private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private static let hosts = EndpointHosts(further: [])

    /// Converts a line, and reads the result as the import does.
    private static func device(_ export: inout ForeignExport, _ line: String) throws -> DeviceLine {
        guard case .line(let converted) = export.convert(Self.bytes(line)) else {
            throw CommandTestError("no device: \(export.convert(Self.bytes(line)))")
        }
        return try DeviceLine(parsing: converted, hosts: Self.hosts)
    }

    private struct CommandTestError: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    private static let apple = String(repeating: "ab", count: 32)

    // MARK: Parse

    @Test func `An installation of Parse has its channels as topics, its user, its language and its badge`() throws {
        var export = ForeignExport(.parse)
        let mongo = """
            {"_id":"xyz","installationId":"5b7d","deviceType":"ios","deviceToken":"\(Self.apple)","channels":["","news"],\
            "localeIdentifier":"en_GB","timeZone":"Europe/London","appVersion":"3.2","badge":4,"_p_user":"_User$u-7",\
            "GCMSenderId":"1","_updated_at":{"$date":"2026-11-20T08:15:30.123Z"}}
            """
        let device = try Self.device(&export, mongo)
        #expect(device.registration.device == "5b7d" && device.registration.provider == .apns)
        #expect(device.registration.environment == .production && device.registration.user == "u-7")
        #expect(device.registration.topics == ["news"] && device.registration.badge == 4)
        #expect(device.registration.attributes.locale == "en-GB")
        #expect(device.registration.attributes.timeZone == "Europe/London")
        #expect(device.registration.attributes.appVersion == "3.2")
        #expect(device.registeredAt == UnixMilliseconds(1_795_162_530_000))

        let rest = """
            {"objectId":"o1","deviceType":"android","pushType":"gcm","deviceToken":"token-of-a","channels":[],\
            "user":{"__type":"Pointer","className":"_User","objectId":"u-8"},"updatedAt":"2026-11-20T08:15:30Z"}
            """
        let android = try Self.device(&export, rest)
        #expect(android.registration.device == "o1" && android.registration.provider == .fcm)
        #expect(android.registration.user == "u-8" && android.registration.topics == [])
        #expect(android.registeredAt == device.registeredAt)
    }

    @Test func `Installations without a token or of another system are left out with the reason`() {
        var export = ForeignExport(.parse)
        #expect(export.convert(Self.bytes(#"{"installationId":"a","deviceType":"ios"}"#)) == .skipped("no token"))
        let windows = #"{"installationId":"a","deviceType":"winrt","deviceToken":"t"}"#
        #expect(export.convert(Self.bytes(windows)) == .skipped("deviceType winrt"))
    }

    @Test func `Tokens of Apple's sandbox are those of the whole export when asked`() throws {
        var export = ForeignExport(.parse, isSandbox: true)
        let line = #"{"installationId":"a","deviceType":"ios","deviceToken":"\#(Self.apple)"}"#
        #expect(try Self.device(&export, line).registration.environment == .sandbox)
    }

    // MARK: Pinpoint

    @Test func `An endpoint of Pinpoint has its user, its place, and an attribute's values as topics`() throws {
        var export = ForeignExport(.pinpoint, topicsFrom: "interests")
        let line = """
            {"Id":"e1","ChannelType":"APNS_VOIP_SANDBOX","Address":"\(Self.apple)","OptOut":"NONE","EndpointStatus":"ACTIVE",\
            "User":{"UserId":"u1","UserAttributes":{"plan":["gold"]}},"Attributes":{"interests":["sport","news"]},\
            "Demographic":{"Timezone":"America/Lima","Locale":"es_PE","AppVersion":"1.0","Platform":"ios"},\
            "Location":{"Country":"PE"},"EffectiveDate":"2026-11-20T08:15:30.000Z","Metrics":{}}
            """
        let device = try Self.device(&export, line)
        #expect(device.registration.device == "e1" && device.registration.user == "u1")
        #expect(device.registration.environment == .sandbox && device.registration.tokenKind == .voip)
        #expect(device.registration.topics == ["sport", "news"])
        #expect(device.registration.attributes.locale == "es-PE" && device.registration.attributes.country == "PE")
        var other = ForeignExport(.pinpoint)
        let android = #"{"Id":"e2","ChannelType":"GCM","Address":"t","Location":{"Country":"PER"}}"#
        let second = try Self.device(&other, android)
        // Topics that nobody named are left as they are.
        #expect(second.registration.provider == .fcm && second.registration.topics == nil)
        #expect(second.registration.attributes.country == "")
    }

    @Test(arguments: [
        (#"{"Id":"e","ChannelType":"EMAIL","Address":"a@example.org"}"#, "ChannelType EMAIL"),
        (#"{"Id":"e","ChannelType":"GCM","Address":"t","OptOut":"ALL"}"#, "opted out"),
        (#"{"Id":"e","ChannelType":"GCM","Address":"t","EndpointStatus":"INACTIVE"}"#, "inactive"),
        (#"{"Id":"e","ChannelType":"GCM"}"#, "no token"),
    ])
    func `Endpoints that get no push are left out with the reason`(_ line: String, _ reason: String) {
        var export = ForeignExport(.pinpoint)
        #expect(export.convert(Self.bytes(line)) == .skipped(reason))
    }

    // MARK: CSV

    @Test func `A table's columns may stand in any order, quoted, with any of three separators`() throws {
        for separator in [",", ";", "\t"] {
            var export = ForeignExport(.csv)
            let names = ["token", "provider", "device", "topics", "tags", "user", "locale", "badge", "registered_at"]
            let header = names.joined(separator: separator)
            #expect(export.convert(Self.bytes("\u{feff}\(header)\r")) == .header)
            // A device's id has no white space.
            let inside = separator == "\t" ? "" : separator
            let row = [
                "t-1", "fcm", "\"a\"\"b\(inside)c\"", "\"news; sport\"", "\"VIP customer;a|b; ;\"", "ada", "de", "3",
                "2026-11-20T08:15:30Z",
            ]
            let device = try Self.device(&export, row.joined(separator: separator))
            #expect(device.registration.device == "a\"b\(inside)c" && device.registration.token == "t-1")
            #expect(device.registration.topics == ["news", "sport"])
            #expect(device.registration.attributes.tags == ["VIP customer", "a|b"])
            #expect(device.registration.user == "ada" && device.registration.badge == 3)
            #expect(device.registeredAt != nil)
        }
    }

    @Test func `A first line that names no devices is refused with the columns and what was meant`() {
        func complaint(_ header: String) -> String {
            var export = ForeignExport(.csv)
            guard case .refused(let rule) = export.convert(Self.bytes(header)) else { return "" }
            return rule
        }
        #expect(complaint("device,tokn,provider").contains("among them device, provider and token"))
        #expect(complaint("device,token,provider,local").contains("did you mean locale?"))
        #expect(complaint("").contains("names of columns"))
    }

    @Test func `A broken row is refused with its rule`() {
        var export = ForeignExport(.csv)
        #expect(export.convert(Self.bytes("device,provider,token,environment,badge,registered_at")) == .header)
        func complaint(_ row: String) -> String {
            guard case .refused(let rule) = export.convert(Self.bytes(row)) else { return "" }
            return rule
        }
        #expect(complaint("a,fcm,t").contains("has 3 values, the first line has 6 names"))
        #expect(complaint("a,fcm,\"t,,,").contains("does not end on its line"))
        #expect(complaint("a,apns,t,prod,,").contains("production or sandbox"))
        #expect(complaint("a,fcm,t,,many,").contains("badge must be a whole number"))
        #expect(complaint("a,fcm,t,,,yesterday").contains("2026-11-21T09:30:00Z"))
        #expect(complaint(",fcm,t,,,").contains("has no id"))
        #expect(export.convert(Self.bytes("a,fcm,,,,")) == .skipped("no token"))
    }

    // MARK: Limits

    @Test func `A line has a maximum of bytes, and must be one JSON object`() {
        for format in [ImportFormat.parse, .pinpoint, .csv] {
            var export = ForeignExport(format)
            let line = [UInt8](repeating: UInt8(ascii: "a"), count: ForeignExport.lineBytesMax + 1)
            guard case .refused(let rule) = export.convert(line) else {
                Issue.record("\(format)")
                continue
            }
            #expect(rule.contains("is longer than \(ForeignExport.lineBytesMax) bytes"))
        }
        var export = ForeignExport(.parse)
        guard case .refused(let list) = export.convert(Self.bytes("[")) else {
            Issue.record("a list is taken")
            return
        }
        #expect(list.contains("jq -c '.[]'"))
        #expect(export.convert(Self.bytes("[]")) == .refused("must be one JSON object a line"))
    }

    @Test func `Lines of Apus go through as they are`() {
        var export = ForeignExport(.apus)
        #expect(export.convert(Self.bytes("anything")) == .line(Self.bytes("anything")))
    }
}
