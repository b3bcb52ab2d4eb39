internal import ApusCore
internal import ApusYAML

extension SimulatorScript {
    /// The maximum bytes of a script.
    public static let bytesMax = 1 << 20

    /// Parses a script; see ``SimulatorScript/help``.
    ///
    /// - Parameter name: the file's name, for errors.
    /// - Throws: ``SimulatorError`` that names file, line and field.
    public init(yaml: String, name: String) throws(SimulatorError) {
        guard yaml.utf8.count <= Self.bytesMax else {
            throw SimulatorError(.invalidFaultPlan, "\(name): is larger than 1 MiB")
        }
        let page = try ScriptPage(yaml: yaml, name: name)
        do throws(SimulatorError) {
            try self.init(page.value)
        } catch {
            throw page.placed(error)
        }
    }

    private init(_ value: JSONValue) throws(SimulatorError) {
        self.init()
        guard let members = value.object?.members else { throw Self.invalid("", "must be a mapping") }
        var command: JSONObject = [:]
        for member in members {
            switch member.name {
            case "tls": self.certificates = try Self.certificates(member.value)
            case "tokens": self.tokens = try Self.schedules(member.value)
            default: command[member.name] = member.value
            }
        }
        let faults = try FaultCommand(.object(command))
        self.plan = faults.plan ?? FaultPlan()
        self.scripts = faults.scripts
        self.hasSeed = command["seed"] != nil
        guard self.scripts.count <= SimulatorLimits.scriptsMax else {
            throw Self.invalid("scripts", "has more than \(SimulatorLimits.scriptsMax) elements")
        }
    }

    private static func invalid(_ field: String, _ what: String) -> SimulatorError {
        SimulatorError(.invalidFaultPlan, what, field: field)
    }

    private static func certificates(_ value: JSONValue) throws(SimulatorError) -> [FaultRoute: CertificateForm] {
        guard let members = value.object?.members else { throw Self.invalid("tls", "must be a mapping") }
        var forms: [FaultRoute: CertificateForm] = [:]
        for member in members {
            let field = "tls.\(member.name)"
            guard let route = FaultRoute(name: member.name), route.isListener else {
                throw Self.invalid(field, "is not a listener; the listeners are \(SimulatedProviders.names)")
            }
            guard let form = member.value.string.flatMap(CertificateForm.init(rawValue:)) else {
                throw Self.invalid(field, "must be \(Self.words(CertificateForm.allCases.map(\.rawValue)))")
            }
            forms[route] = form
        }
        return forms
    }

    private static func words(_ words: [String]) -> String { words.joined(separator: ", ") }

    // MARK: Tokens

    private static func schedules(_ value: JSONValue) throws(SimulatorError) -> [TokenSchedule] {
        guard let elements = value.array else { throw Self.invalid("tokens", "must be a list") }
        var schedules: [TokenSchedule] = []
        for (index, element) in elements.enumerated() { schedules += try Self.schedule(element, "tokens[\(index)]") }
        return schedules
    }

    /// Reads a token's schedule and, if it rotates, that of the next token.
    private static func schedule(_ value: JSONValue, _ field: String) throws(SimulatorError) -> [TokenSchedule] {
        guard let members = value.object?.members else { throw Self.invalid(field, "must be a mapping") }
        guard let provider = value["provider"]?.string.flatMap(Provider.init(simulated:)) else {
            throw Self.invalid("\(field).provider", "must be \(SimulatedProviders.names)")
        }
        guard let token = value["token"]?.string, !token.isEmpty else {
            throw Self.invalid("\(field).token", "must be a token")
        }
        var schedule = TokenSchedule(provider: provider, token: token, events: [])
        var successors: [TokenSchedule] = []
        for member in members where member.name != "provider" && member.name != "token" {
            let place = "\(field).\(member.name)"
            if member.name == "rotates_ms" || member.name == "rotates_to" { continue }
            guard member.name.hasSuffix("_ms"),
                let event = TokenSchedule.Event(rawValue: String(member.name.dropLast(3)))
            else {
                let known = TokenSchedule.Event.allCases.map { "\($0.rawValue)_ms" } + ["rotates_ms", "rotates_to"]
                throw Self.invalid(place, "is unknown; known are \(Self.words(known))")
            }
            schedule.events.append(
                TokenSchedule.TimedEvent(atMilliseconds: try Self.time(member.value, place), event: event)
            )
        }
        if let at = value["rotates_ms"] {
            guard let next = value["rotates_to"]?.string, !next.isEmpty, next != token else {
                throw Self.invalid("\(field).rotates_to", "must be the next token")
            }
            let time = try Self.time(at, "\(field).rotates_ms")
            schedule.events.append(TokenSchedule.TimedEvent(atMilliseconds: time, event: .dies))
            let born = [
                TokenSchedule.TimedEvent(atMilliseconds: 0, event: .spoils),
                TokenSchedule.TimedEvent(atMilliseconds: time, event: .returns),
            ]
            successors = [TokenSchedule(provider: provider, token: next, events: born)]
        } else if value["rotates_to"] != nil {
            throw Self.invalid("\(field).rotates_to", "needs rotates_ms")
        }
        guard !schedule.events.isEmpty else { throw Self.invalid(field, "names no event of the token") }
        schedule.events.sort { $0.atMilliseconds < $1.atMilliseconds }
        return [schedule] + successors
    }

    private static func time(_ value: JSONValue, _ field: String) throws(SimulatorError) -> Int64 {
        guard let time = value.int64, (0...FaultRates.delayMillisecondsMax * 24).contains(time) else {
            throw Self.invalid(field, "must be milliseconds, at most a day")
        }
        return time
    }
}

/// A YAML file as JSON values, with the line of each field.
private struct ScriptPage {
    let value: JSONValue
    private var lines: [String: Int] = [:]
    private let name: String

    /// The maximum nesting of a script.
    private static let depthMax = 8

    init(yaml: String, name: String) throws(SimulatorError) {
        self.name = name
        let root: YAMLNode?
        do throws(YAMLError) {
            root = try YAMLNode.parse(yaml)
        } catch {
            let line = error.line.map { ":\($0)" } ?? ""
            throw SimulatorError(.invalidFaultPlan, "\(name)\(line): is not valid YAML: \(error.problem)")
        }
        var lines: [String: Int] = [:]
        guard let root, root.scalar?.isNull != true else {
            self.value = .object([:])
            return
        }
        self.value = try Self.value(of: root, "", 0, &lines, name)
        self.lines = lines
    }

    private static func value(
        of node: YAMLNode,
        _ field: String,
        _ depth: Int,
        _ lines: inout [String: Int],
        _ name: String,
    ) throws(SimulatorError) -> JSONValue {
        let line = lines[field] ?? node.line
        lines[field] = line
        guard depth <= Self.depthMax else {
            throw SimulatorError(.invalidFaultPlan, "\(name):\(line): \(field): is nested too deeply")
        }
        switch node.content {
        case .mapping(let mapping):
            var object: JSONObject = [:]
            for pair in mapping {
                guard let word = pair.key.scalar?.text, !word.isEmpty else {
                    throw SimulatorError(.invalidFaultPlan, "\(name):\(line): a key must be a word")
                }
                let place = field.isEmpty ? word : "\(field).\(word)"
                lines[place] = pair.key.line
                object[word] = try Self.value(of: pair.value, place, depth + 1, &lines, name)
            }
            return .object(object)
        case .sequence(let list):
            var elements: [JSONValue] = []
            for (index, inner) in list.enumerated() {
                elements.append(try Self.value(of: inner, "\(field)[\(index)]", depth + 1, &lines, name))
            }
            return .array(elements)
        case .scalar(let scalar):
            if let whole = scalar.integer { return .integer(Int64(whole)) }
            if let value = scalar.number.flatMap(Self.number) { return value }
            if let truth = scalar.bool { return .bool(truth) }
            return scalar.isNull ? .null : .string(scalar.text)
        }
    }

    private static func number(_ number: Double) -> JSONValue? {
        try? JSONValue(parsing: Array("\(number)".utf8), bytesMax: 64)
    }

    /// Adds file, line and field to the message of an error.
    func placed(_ error: SimulatorError) -> SimulatorError {
        var place = error.field
        while self.lines[place] == nil, let cut = place.lastIndex(where: { $0 == "." || $0 == "[" }) {
            place = String(place[..<cut])
        }
        let line = self.lines[place] ?? 1
        let field = error.field.isEmpty ? "" : "\(error.field): "
        return SimulatorError(error.code, "\(self.name):\(line): \(field)\(error.message)", field: error.field)
    }
}
