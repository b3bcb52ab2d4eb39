internal import ApusCore
internal import Yams

extension SimulatorScript {
    /// Bytes of a script.
    public static let bytesMax = 1 << 20

    /// Reads a script; see ``SimulatorScript/help``.
    ///
    /// - Parameter name: of the file, for messages.
    /// - Throws: ``SimulatorError`` naming file, line and field.
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
        var order: JSONObject = [:]
        for member in members {
            switch member.name {
            case "tls": self.certificates = try Self.certificates(member.value)
            case "tokens": self.tokens = try Self.lives(member.value)
            default: order[member.name] = member.value
            }
        }
        let faults = try FaultOrder(.object(order))
        self.plan = faults.plan ?? FaultPlan()
        self.scripts = faults.scripts
        self.hasSeed = order["seed"] != nil
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
            guard let route = FaultRoute(name: member.name), route != .oauth else {
                throw Self.invalid(field, "is no listener: apns or fcm")
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

    private static func lives(_ value: JSONValue) throws(SimulatorError) -> [TokenLife] {
        guard let elements = value.array else { throw Self.invalid("tokens", "must be a list") }
        var lives: [TokenLife] = []
        for (index, element) in elements.enumerated() { lives += try Self.life(element, "tokens[\(index)]") }
        return lives
    }

    /// A token's life and, if it rotates, that of the one that follows it.
    private static func life(_ value: JSONValue, _ field: String) throws(SimulatorError) -> [TokenLife] {
        guard let members = value.object?.members else { throw Self.invalid(field, "must be a mapping") }
        guard let provider = value["provider"]?.string.flatMap(Provider.init(name:)), provider != .webpush else {
            throw Self.invalid("\(field).provider", "must be apns or fcm")
        }
        guard let token = value["token"]?.string, !token.isEmpty else {
            throw Self.invalid("\(field).token", "must be a token")
        }
        var life = TokenLife(provider: provider, token: token, turns: [])
        var successors: [TokenLife] = []
        for member in members where member.name != "provider" && member.name != "token" {
            let place = "\(field).\(member.name)"
            if member.name == "rotates_ms" || member.name == "rotates_to" { continue }
            guard member.name.hasSuffix("_ms"), let event = TokenLife.Event(rawValue: String(member.name.dropLast(3)))
            else {
                let known = TokenLife.Event.allCases.map { "\($0.rawValue)_ms" } + ["rotates_ms", "rotates_to"]
                throw Self.invalid(place, "is unknown; known are \(Self.words(known))")
            }
            life.turns.append(TokenLife.Turn(atMilliseconds: try Self.time(member.value, place), event: event))
        }
        if let at = value["rotates_ms"] {
            guard let next = value["rotates_to"]?.string, !next.isEmpty, next != token else {
                throw Self.invalid("\(field).rotates_to", "must be the token that follows")
            }
            let time = try Self.time(at, "\(field).rotates_ms")
            life.turns.append(TokenLife.Turn(atMilliseconds: time, event: .dies))
            let born = [
                TokenLife.Turn(atMilliseconds: 0, event: .spoils),
                TokenLife.Turn(atMilliseconds: time, event: .returns),
            ]
            successors = [TokenLife(provider: provider, token: next, turns: born)]
        } else if value["rotates_to"] != nil {
            throw Self.invalid("\(field).rotates_to", "needs rotates_ms")
        }
        guard !life.turns.isEmpty else { throw Self.invalid(field, "says nothing of what becomes of the token") }
        life.turns.sort { $0.atMilliseconds < $1.atMilliseconds }
        return [life] + successors
    }

    private static func time(_ value: JSONValue, _ field: String) throws(SimulatorError) -> Int64 {
        guard let time = value.int64, (0...FaultRates.delayMillisecondsMax * 24).contains(time) else {
            throw Self.invalid(field, "must be milliseconds, at most a day")
        }
        return time
    }
}

/// A file of YAML as the values of JSON, with the line of each field.
private struct ScriptPage {
    let value: JSONValue
    private var lines: [String: Int] = [:]
    private let name: String

    /// Nesting of a script.
    private static let depthMax = 8

    init(yaml: String, name: String) throws(SimulatorError) {
        self.name = name
        let root: Node?
        do {
            root = try Yams.compose(yaml: yaml)
        } catch {
            throw SimulatorError(.invalidFaultPlan, "\(name): is not valid YAML: \(error)")
        }
        var lines: [String: Int] = [:]
        guard let root, root.tag != Tag(.null) else {
            self.value = .object([:])
            return
        }
        self.value = try Self.value(of: root, "", 0, &lines, name)
        self.lines = lines
    }

    private static func value(
        of node: Node,
        _ field: String,
        _ depth: Int,
        _ lines: inout [String: Int],
        _ name: String,
    ) throws(SimulatorError) -> JSONValue {
        let line = lines[field] ?? node.mark?.line ?? 1
        lines[field] = line
        guard depth <= Self.depthMax else {
            throw SimulatorError(.invalidFaultPlan, "\(name):\(line): \(field): is nested too deeply")
        }
        switch node {
        case .mapping(let mapping):
            var object: JSONObject = [:]
            for (key, inner) in mapping {
                guard let word = key.scalar?.string, !word.isEmpty else {
                    throw SimulatorError(.invalidFaultPlan, "\(name):\(line): a key must be a word")
                }
                let place = field.isEmpty ? word : "\(field).\(word)"
                lines[place] = key.mark?.line ?? line
                object[word] = try Self.value(of: inner, place, depth + 1, &lines, name)
            }
            return .object(object)
        case .sequence(let list):
            var elements: [JSONValue] = []
            for (index, inner) in list.enumerated() {
                elements.append(try Self.value(of: inner, "\(field)[\(index)]", depth + 1, &lines, name))
            }
            return .array(elements)
        case .scalar(let scalar):
            if node.tag == Tag(.str) { return .string(scalar.string) }
            if let whole = node.int { return .integer(Int64(whole)) }
            if let number = node.float, number.isFinite, let value = Self.number(number) { return value }
            if let truth = node.bool { return .bool(truth) }
            return node.tag == Tag(.null) ? .null : .string(scalar.string)
        case .alias:
            throw SimulatorError(.invalidFaultPlan, "\(name):\(line): \(field): aliases are not supported")
        }
    }

    private static func number(_ number: Double) -> JSONValue? {
        try? JSONValue(parsing: Array("\(number)".utf8), bytesMax: 64)
    }

    /// The error with file, line and field before its sentence.
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
