internal import ApusCore
internal import ApusStore

/// The forms of lines that `apus store import` reads.
package enum ImportFormat: String, CaseIterable, Hashable, Sendable {
    /// The lines of `apus store export`, and of `…/devices:import`.
    case apus
    /// The class `_Installation` of Parse Server, one JSON object a line, as mongoexport writes it or as its REST interface answers.
    case parse
    /// The endpoints of Amazon Pinpoint, one JSON object a line, as an export job writes them.
    case pinpoint
    /// Comma-separated values (RFC 4180) with a line of names first.
    case csv
}

/// Converts lines of another system's export to lines of ours. Pure.
///
/// Sources: https://docs.parseplatform.org/rest/guide/#installations,
/// https://docs.aws.amazon.com/pinpoint/latest/apireference/apps-application-id-endpoints-endpoint-id.html,
/// https://www.rfc-editor.org/rfc/rfc4180
package struct ForeignExport: Sendable {
    /// The maximum bytes of a line.
    package static let lineBytesMax = 64 * 1_024

    /// The result of a line.
    package enum Conversion: Hashable, Sendable {
        /// A line of ours.
        case line([UInt8])
        /// A line that has no device, with the reason, such as an e-mail address.
        case skipped(String)
        /// The names of columns.
        case header
        /// A line that cannot be read, with the rule that it breaks.
        case refused(String)
    }

    private let format: ImportFormat
    private let isSandbox: Bool
    /// The member or column whose values become topics; nil for the usual one of the format.
    private let topicsFrom: String?
    private var table: CSVTable?
    /// True when the line of names was refused: no line behind it can be read.
    package private(set) var isUnreadable = false

    /// Creates a conversion.
    ///
    /// - Parameters:
    ///   - isSandbox: true when tokens of Apple are of its sandbox and the lines do not say so.
    ///   - topicsFrom: the attribute or the column whose values become topics; nil for channels (Parse), topics (CSV), and none (Pinpoint).
    package init(_ format: ImportFormat, isSandbox: Bool = false, topicsFrom: String? = nil) {
        self.format = format
        self.isSandbox = isSandbox
        self.topicsFrom = topicsFrom
    }

    /// Converts a line without its end.
    package mutating func convert(_ line: [UInt8]) -> Conversion {
        guard self.format != .apus else { return .line(line) }
        guard line.count <= Self.lineBytesMax else { return .refused("is longer than \(Self.lineBytesMax) bytes") }
        guard self.format != .csv else { return self.row(line) }
        do {
            let value = try JSONValue(parsing: line, bytesMax: Self.lineBytesMax)
            guard value.object != nil else { return .refused("must be one JSON object a line") }
            return self.format == .parse ? self.parse(value) : self.pinpoint(value)
        } catch {
            return .refused("\(error): one JSON object a line is read; jq -c '.[]' makes them of a list")
        }
    }

    // MARK: Parse

    private func parse(_ value: JSONValue) -> Conversion {
        guard let token = value["deviceToken"]?.string, !token.isEmpty else { return .skipped("no token") }
        var device = Device()
        switch value["deviceType"]?.string {
        case "ios", "osx", "tvos", "watchos": device.provider = "apns"
        case "android": device.provider = "fcm"
        case let type: return .skipped("deviceType \(type ?? "missing")")
        }
        device.id = value["installationId"]?.string ?? value["objectId"]?.string ?? value["_id"]?.string ?? ""
        device.token = token
        // mongoexport has a pointer as text, with its class before the id.
        let pointer = value["_p_user"]?.string?.split(separator: "$", maxSplits: 1).last.map { String($0) }
        device.user = value["user"]?["objectId"]?.string ?? pointer ?? ""
        let channels = value[self.topicsFrom ?? "channels"]?.array?.compactMap(\.string)
        // The channel without a name was everybody's.
        device.topics = channels?.filter { !$0.isEmpty }
        device.locale = value["localeIdentifier"]?.string ?? ""
        device.timeZone = value["timeZone"]?.string ?? ""
        device.appVersion = value["appVersion"]?.string ?? ""
        device.badge = value["badge"]?.int64
        device.registeredAt = Self.time(value["updatedAt"] ?? value["_updated_at"])
        return self.line(device)
    }

    // MARK: Pinpoint

    private func pinpoint(_ value: JSONValue) -> Conversion {
        guard value["OptOut"]?.string != "ALL" else { return .skipped("opted out") }
        guard value["EndpointStatus"]?.string != "INACTIVE" else { return .skipped("inactive") }
        var device = Device()
        switch value["ChannelType"]?.string {
        case "APNS": device.provider = "apns"
        case "APNS_SANDBOX": (device.provider, device.isSandbox) = ("apns", true)
        case "APNS_VOIP": (device.provider, device.kind) = ("apns", "voip")
        case "APNS_VOIP_SANDBOX": (device.provider, device.kind, device.isSandbox) = ("apns", "voip", true)
        case "GCM": device.provider = "fcm"
        case let channel: return .skipped("ChannelType \(channel ?? "missing")")
        }
        guard let address = value["Address"]?.string, !address.isEmpty else { return .skipped("no token") }
        device.token = address
        device.id = value["Id"]?.string ?? ""
        device.user = value["User"]?["UserId"]?.string ?? ""
        let demographic = value["Demographic"]
        device.locale = demographic?["Locale"]?.string ?? ""
        device.timeZone = demographic?["Timezone"]?.string ?? ""
        device.appVersion = demographic?["AppVersion"]?.string ?? ""
        // Pinpoint's country is of two letters or of three; ours has two.
        if let country = value["Location"]?["Country"]?.string, country.utf8.count == 2 { device.country = country }
        if let name = self.topicsFrom {
            let values = value["Attributes"]?[name] ?? value["User"]?["UserAttributes"]?[name]
            device.topics = values?.array?.compactMap(\.string) ?? []
        }
        device.registeredAt = Self.time(value["EffectiveDate"])
        return self.line(device)
    }

    // MARK: CSV

    /// The columns of a table, beside the one that `topicsFrom` names.
    package static let columns = [
        "device", "provider", "token", "environment", "token_kind", "user", "topics", "tags", "locale", "time_zone",
        "app_version", "country", "badge", "registered_at",
    ]

    private mutating func row(_ line: [UInt8]) -> Conversion {
        guard let table else {
            let header = self.header(line)
            self.isUnreadable = header != .header
            return header
        }
        guard let row = table.row(line) else { return .refused("has a quoted value that does not end on its line") }
        guard row.count == table.columns.count else {
            return .refused("has \(row.count) values, the first line has \(table.columns.count) names")
        }
        func cell(_ name: String) -> String { table.columns.firstIndex(of: name).map { row[$0] } ?? "" }
        func list(_ name: String) -> [String]? {
            guard table.columns.contains(name) else { return nil }
            return cell(name).split(separator: ";").map { Self.trimmed($0) }.filter { !$0.isEmpty }
        }
        var device = Device()
        device.id = cell("device")
        device.provider = cell("provider")
        device.token = cell("token")
        guard !device.token.isEmpty else { return .skipped("no token") }
        switch cell("environment") {
        case "": break
        case "production": device.isSandbox = false
        case "sandbox": device.isSandbox = true
        default: return .refused("environment must be production or sandbox")
        }
        device.kind = cell("token_kind")
        device.user = cell("user")
        device.topics = list(self.topicsFrom ?? "topics")
        device.tags = list("tags") ?? []
        device.locale = cell("locale")
        device.timeZone = cell("time_zone")
        device.appVersion = cell("app_version")
        device.country = cell("country")
        if !cell("badge").isEmpty {
            guard let badge = Int64(cell("badge")) else { return .refused("badge must be a whole number") }
            device.badge = badge
        }
        if !cell("registered_at").isEmpty {
            guard let time = Self.time(.string(cell("registered_at"))) else {
                return .refused("registered_at must be a time such as 2026-11-21T09:30:00Z")
            }
            device.registeredAt = time
        }
        return self.line(device)
    }

    /// Returns a text without white space around it.
    private static func trimmed(_ text: Substring) -> String {
        let front = text.drop { $0.isWhitespace }
        guard let last = front.lastIndex(where: { !$0.isWhitespace }) else { return "" }
        return String(front[...last])
    }

    private mutating func header(_ line: [UInt8]) -> Conversion {
        guard let table = CSVTable(header: line) else {
            return .refused("the first line must have the names of columns")
        }
        for name in ["device", "provider", "token"] where !table.columns.contains(name) {
            return .refused(
                "the first line must name the columns, among them device, provider and token; it names "
                    + table.columns.joined(separator: ", ")
            )
        }
        for name in table.columns where !Self.columns.contains(name) && name != self.topicsFrom {
            let meant = closest(to: name, among: Self.columns).map { "; did you mean \($0)?" } ?? ""
            return .refused(
                "\(name) is no column of devices\(meant) The columns: \(Self.columns.joined(separator: ", "))"
            )
        }
        self.table = table
        return .header
    }

    // MARK: Lines of ours

    private struct Device {
        var id = ""
        var provider = ""
        var token = ""
        var isSandbox: Bool?
        var kind = ""
        var user = ""
        var topics: [String]?
        var tags: [String] = []
        var locale = ""
        var timeZone = ""
        var appVersion = ""
        var country = ""
        var badge: Int64?
        var registeredAt: UnixMilliseconds?
    }

    private func line(_ device: Device) -> Conversion {
        guard !device.id.isEmpty else { return .refused("has no id") }
        var line: JSONObject = [
            "device": .string(device.id), "provider": .string(device.provider), "token": .string(device.token),
        ]
        if device.provider == "apns" {
            line["environment"] = device.isSandbox ?? self.isSandbox ? "sandbox" : "production"
        }
        if !device.kind.isEmpty { line["token_kind"] = .string(device.kind) }
        if !device.user.isEmpty { line["user"] = .string(device.user) }
        if let topics = device.topics { line["topics"] = .array(topics.map { .string($0) }) }
        var attributes = JSONObject()
        for (name, value) in [
            ("locale", device.locale.replacing("_", with: "-")), ("time_zone", device.timeZone),
            ("app_version", device.appVersion), ("country", device.country),
        ] where !value.isEmpty { attributes[name] = .string(value) }
        if !device.tags.isEmpty { attributes["tags"] = .array(device.tags.map { .string($0) }) }
        if !attributes.isEmpty { line["attributes"] = .object(attributes) }
        if let badge = device.badge { line["badge"] = .integer(badge) }
        if let time = device.registeredAt { line["registered_at_ms"] = .integer(time.value) }
        return .line(JSONValue.object(line).bytes)
    }

    /// Reads a time: text of ISO 8601 in UTC, whose fraction of a second is cut off; in MongoDB's form, that under `$date`.
    static func time(_ value: JSONValue?) -> UnixMilliseconds? {
        guard let text = value?["$date"]?.string ?? value?["iso"]?.string ?? value?.string else { return nil }
        guard text.hasSuffix("Z"), let dot = text.firstIndex(of: ".") else { return CalendarTime.parse(text) }
        return CalendarTime.parse("\(text[..<dot])Z")
    }
}

/// Reads lines of comma-separated values, or of those that semicolons or tabs separate. Pure.
struct CSVTable: Hashable, Sendable {
    /// The names of the columns.
    let columns: [String]
    private let separator: UInt8

    /// Reads the first line; nil when it has no name, or an open quote.
    init?(header line: [UInt8]) {
        var line = line[...]
        // Spreadsheets begin a file with a byte order mark.
        if line.starts(with: [0xef, 0xbb, 0xbf]) { line = line.dropFirst(3) }
        let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")]
        let counts = separators.map { separator in line.count { $0 == separator } }
        self.separator = zip(separators, counts).max { $0.1 < $1.1 }?.0 ?? UInt8(ascii: ",")
        guard let names = Self.values(Array(line), self.separator), names.contains(where: { !$0.isEmpty }) else {
            return nil
        }
        self.columns = names
    }

    /// Returns the values of a line; nil when a quoted one does not end on it.
    func row(_ line: [UInt8]) -> [String]? { Self.values(line, self.separator) }

    private static func values(_ line: [UInt8], _ separator: UInt8) -> [String]? {
        let quote = UInt8(ascii: "\"")
        var values: [String] = []
        var value: [UInt8] = []
        var isQuoted = false
        var index = 0
        while index < line.count {
            let byte = line[index]
            index += 1
            if isQuoted {
                if byte != quote {
                    value.append(byte)
                } else if index < line.count, line[index] == quote {
                    value.append(quote)
                    index += 1
                } else {
                    isQuoted = false
                }
            } else if byte == quote, value.isEmpty {
                isQuoted = true
            } else if byte == separator {
                values.append(String(decoding: value, as: UTF8.self))
                value = []
            } else if byte != UInt8(ascii: "\r") {
                value.append(byte)
            }
        }
        values.append(String(decoding: value, as: UTF8.self))
        return isQuoted ? nil : values
    }
}
