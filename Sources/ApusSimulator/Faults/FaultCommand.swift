internal import ApusCore

/// The command of `POST /faults`: a plan, scripts, or both.
package struct FaultCommand: Hashable, Sendable {
    /// The plan; nil to keep the plan in force.
    package var plan: FaultPlan?
    /// The scripts in the order of their use.
    package var scripts: [FaultScript]

    /// Parses a command: JSON with the members of a script, see ``SimulatorScript/help``, except `tls` and `tokens`.
    ///
    /// A missing member counts as zero; with `scripts` alone the plan in force stays.
    package init(json: [UInt8]) throws(SimulatorError) {
        try self.init(JSONValue(command: json))
    }

    /// Creates a command from its values; an error names the field.
    init(_ command: JSONValue) throws(SimulatorError) {
        guard let members = command.object?.members else { throw Self.invalid("", "must be an object") }
        var plan = FaultPlan()
        var hasPlan = false
        var scripts: [FaultScript] = []
        for member in members {
            if member.name == "scripts" {
                for (index, element) in try Self.elements(member.value, "scripts").enumerated() {
                    scripts.append(try Self.script(element, "scripts[\(index)]"))
                }
                continue
            }
            hasPlan = true
            switch member.name {
            case "seed":
                guard let seed = member.value.int64, seed >= 0 else {
                    throw Self.invalid("seed", "must be a whole number from 0 on")
                }
                plan.seed = UInt64(seed)
            case "retry_after": plan.retryAfter = try Self.retryAfter(member.value)
            case "phases":
                for (index, element) in try Self.elements(member.value, "phases").enumerated() {
                    plan.phases.append(try Self.phase(element, "phases[\(index)]"))
                }
            case "quota": plan.quota = try Self.quota(member.value)
            default:
                guard let route = FaultRoute(name: member.name) else { throw Self.invalid(member.name, "is unknown") }
                plan[route] = try Self.rates(member.value, of: route, member.name)
            }
        }
        self.plan = hasPlan ? plan : nil
        self.scripts = scripts
    }

    private static func invalid(_ field: String, _ what: String) -> SimulatorError {
        SimulatorError(.invalidFaultPlan, what, field: field)
    }

    private static func elements(_ value: JSONValue, _ field: String) throws(SimulatorError) -> [JSONValue] {
        guard let elements = value.array else { throw Self.invalid(field, "must be a list") }
        return elements
    }

    private static func members(_ value: JSONValue, _ field: String) throws(SimulatorError) -> [JSONObject.Member] {
        guard let members = value.object?.members else { throw Self.invalid(field, "must be an object") }
        return Array(members)
    }

    // MARK: Rates

    private static func rates(
        _ value: JSONValue,
        of route: FaultRoute,
        _ field: String,
    ) throws(SimulatorError) -> FaultRates {
        var rates = FaultRates()
        for member in try Self.members(value, field) {
            let (place, value) = ("\(field).\(member.name)", member.value)
            switch member.name {
            case "too_many_requests": rates.tooManyRequests = try Self.share(value, place)
            case "unavailable": rates.unavailable = try Self.share(value, place)
            case "internal_error": rates.internalError = try Self.share(value, place)
            case "silence": rates.silence = try Self.share(value, place)
            case "refusal": rates.refusal = try Self.share(value, place)
            case "drop": rates.drop = try Self.share(value, place)
            case "half_body": rates.halfBody = try Self.share(value, place)
            case "slow": rates.slow = try Self.share(value, place)
            case "slow_ms": rates.slowMilliseconds = try Self.milliseconds(value, place)
            case "delay_ms": rates.delayMilliseconds = try Self.milliseconds(value, place)
            case "jitter_ms": rates.jitterMilliseconds = try Self.milliseconds(value, place)
            case "go_away_after": rates.goAwayAfterRequests = Int(try Self.whole(value, place, in: 1...1_000_000_000))
            case "go_away_every_ms":
                rates.goAwayEveryMilliseconds = try Self.whole(value, place, in: 1...FaultRates.delayMillisecondsMax)
            case "go_away_reason": rates.goAway.reason = try Self.goAwayReason(value, place)
            case "go_away_last":
                guard let last = value.string.flatMap(GoAwayForm.LastStream.init(rawValue:)) else {
                    throw Self.invalid(place, "must be this, before or none")
                }
                rates.goAway.lastStream = last
            case "reasons": rates.reasons = try Self.reasons(value, of: route, place)
            case "answers":
                for (index, element) in try Self.elements(value, place).enumerated() {
                    rates.answers.append(try Self.answer(element, "\(place)[\(index)]"))
                }
            default: throw Self.invalid(place, "is unknown")
            }
        }
        guard rates.isValid else { throw Self.invalid(field, "has probabilities whose sum is above 1") }
        return rates
    }

    private static func reasons(
        _ value: JSONValue,
        of route: FaultRoute,
        _ field: String,
    ) throws(SimulatorError) -> [ReasonRate] {
        var rates: [ReasonRate] = []
        for member in try Self.members(value, field) {
            let word = try Self.reason(member.name, of: route, "\(field).\(member.name)")
            rates.append(ReasonRate(word, try Self.share(member.value, "\(field).\(member.name)")))
        }
        return rates
    }

    private static func answer(_ value: JSONValue, _ field: String) throws(SimulatorError) -> AnswerRate {
        for member in try Self.members(value, field) where !["status", "body", "share"].contains(member.name) {
            throw Self.invalid("\(field).\(member.name)", "is unknown")
        }
        let status = Int(try Self.whole(value["status"] ?? .null, "\(field).status", in: 200...599))
        let body = try Self.body(value["body"], "\(field).body")
        return AnswerRate(status: status, body: body, try Self.share(value["share"] ?? .null, "\(field).share"))
    }

    private static func body(_ value: JSONValue?, _ field: String) throws(SimulatorError) -> String {
        guard let value else { return "" }
        guard let text = value.string else { throw Self.invalid(field, "must be a text in quotation marks") }
        return text
    }

    private static func reason(_ word: String, of route: FaultRoute, _ field: String) throws(SimulatorError) -> String {
        let known = route.type.reasons(of: route)
        guard known.contains(word) else {
            throw Self.invalid(
                field,
                "is not a reason of \(route.name); known reasons are \(known.joined(separator: ", "))"
            )
        }
        return word
    }

    private static func goAwayReason(_ value: JSONValue, _ field: String) throws(SimulatorError) -> String {
        guard let word = value.string, !word.isEmpty, word.utf8.count <= 64,
            word.utf8.allSatisfy({ (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0) })
        else { throw Self.invalid(field, "must be a word such as Shutdown or BadCertificateEnvironment") }
        return word
    }

    private static func share(_ value: JSONValue, _ field: String) throws(SimulatorError) -> Double {
        guard let share = value.double, (0...1).contains(share) else { throw Self.invalid(field, "must be 0 to 1") }
        return share
    }

    private static func milliseconds(_ value: JSONValue, _ field: String) throws(SimulatorError) -> Int64 {
        try Self.whole(value, field, in: 0...FaultRates.delayMillisecondsMax)
    }

    private static func whole(
        _ value: JSONValue,
        _ field: String,
        in range: ClosedRange<Int64>,
    ) throws(SimulatorError) -> Int64 {
        guard let number = value.int64, range.contains(number) else {
            throw Self.invalid(field, "must be a whole number, \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    // MARK: Times

    private static func phase(_ value: JSONValue, _ field: String) throws(SimulatorError) -> FaultPhase {
        let day = FaultRates.delayMillisecondsMax * 24
        var phase = FaultPhase(fromMilliseconds: 0)
        for member in try Self.members(value, field) {
            let place = "\(field).\(member.name)"
            switch member.name {
            case "from_ms": phase.fromMilliseconds = try Self.whole(member.value, place, in: 0...day)
            case "until_ms": phase.untilMilliseconds = try Self.whole(member.value, place, in: 1...day)
            case "streams": phase.streamsMax = UInt32(try Self.whole(member.value, place, in: 1...1_000_000))
            default:
                guard let route = FaultRoute(name: member.name) else { throw Self.invalid(place, "is unknown") }
                phase.rates[route] = try Self.rates(member.value, of: route, place)
            }
        }
        guard phase.isValid else { throw Self.invalid("\(field).until_ms", "must be after from_ms") }
        return phase
    }

    private static func quota(_ value: JSONValue) throws(SimulatorError) -> MessageQuota {
        var quota = MessageQuota(messages: 0, windowMilliseconds: 60_000)
        var hasMessages = false
        for member in try Self.members(value, "quota") {
            let place = "quota.\(member.name)"
            switch member.name {
            case "messages":
                quota.messages = Int(try Self.whole(member.value, place, in: 0...1_000_000_000))
                hasMessages = true
            case "window_ms":
                quota.windowMilliseconds = try Self.whole(member.value, place, in: 1...FaultRates.delayMillisecondsMax)
            case "retry_after":
                guard let form = member.value.string.flatMap(MessageQuota.RetryAfter.init(rawValue:)) else {
                    throw Self.invalid(place, "must be seconds, date, alternating or none")
                }
                quota.retryAfter = form
            default: throw Self.invalid(place, "is unknown")
            }
        }
        guard hasMessages else { throw Self.invalid("quota.messages", "is missing") }
        return quota
    }

    private static func retryAfter(_ value: JSONValue) throws(SimulatorError) -> RetryAfterForm {
        for member in try Self.members(value, "retry_after") where !["form", "seconds"].contains(member.name) {
            throw Self.invalid("retry_after.\(member.name)", "is unknown")
        }
        let seconds = Int(try Self.whole(value["seconds"] ?? .null, "retry_after.seconds", in: 0...86_400))
        switch value["form"]?.string ?? "seconds" {
        case "seconds": return .seconds(seconds)
        case "date": return .date(seconds: seconds)
        case "alternating": return .alternating(seconds: seconds)
        default: throw Self.invalid("retry_after.form", "must be seconds, date or alternating")
        }
    }

    // MARK: Scripts

    private static func script(_ value: JSONValue, _ field: String) throws(SimulatorError) -> FaultScript {
        for member in try Self.members(value, field) where !["route", "path", "count", "fault"].contains(member.name) {
            throw Self.invalid("\(field).\(member.name)", "is unknown")
        }
        guard let route = value["route"]?.string.flatMap(FaultRoute.init(name:)) else {
            throw Self.invalid("\(field).route", "must be \(FaultRoute.names)")
        }
        let count = try value["count"].map { count throws(SimulatorError) in
            try Self.whole(count, "\(field).count", in: 1...1_000_000_000)
        }
        let known = ["reason", "result", "token", "status", "body"]
        if let stranger = value["fault"]?.object?.members.first(where: { !known.contains($0.name) }) {
            throw Self.invalid("\(field).fault.\(stranger.name)", "is unknown")
        }
        let fault: Fault
        if let name = value["fault"]?.string, let named = Fault.named.first(where: { $0.name == name }) {
            fault = named
        } else if let word = value["fault"]?["reason"]?.string {
            fault = .reason(try Self.reason(word, of: route, "\(field).fault.reason"))
        } else if let word = value["fault"]?["result"]?.string {
            let known = route.isListener ? route.type.traits.resultWords : []
            guard known.contains(word) else {
                let words = known.isEmpty ? "\(route.name) has no batches" : known.joined(separator: ", ")
                throw Self.invalid("\(field).fault.result", "must be an error of a token in a batch: \(words)")
            }
            fault = .result(word, tokensContaining: value["fault"]?["token"]?.string)
        } else if let status = value["fault"]?["status"]?.int64, (200...599).contains(status) {
            fault = .answer(status: Int(status), body: try Self.body(value["fault"]?["body"], "\(field).fault.body"))
        } else {
            let names = Fault.named.map(\.name).joined(separator: ", ")
            throw Self.invalid("\(field).fault", "must be one of \(names), or a reason, a result, or status and body")
        }
        return FaultScript(route: route, pathContains: value["path"]?.string, count: Int(count ?? 1), fault: fault)
    }
}

extension JSONValue {
    /// Parses the body of a command to the control listener.
    init(command: [UInt8]) throws(SimulatorError) {
        do throws(JSONError) {
            self = try JSONValue(parsing: command, bytesMax: SimulatorLimits.controlBodyBytesMax)
        } catch {
            throw SimulatorError(.malformedJSON, "not JSON: \(error)")
        }
    }
}
