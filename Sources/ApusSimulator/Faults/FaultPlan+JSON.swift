internal import ApusCore

/// What `POST /faults` brings: a plan, scripts, or both.
package struct FaultOrder: Hashable, Sendable {
    /// nil: the plan in force stays.
    package var plan: FaultPlan?
    /// In the order they strike.
    package var scripts: [FaultScript]

    /// Reads an order.
    ///
    /// ```json
    /// {"seed": 7,
    ///  "apns": {"too_many_requests": 0.01, "unavailable": 0, "internal_error": 0, "silence": 0, "refusal": 0,
    ///           "drop": 0, "delay_ms": 5, "jitter_ms": 10, "go_away_after": 1000,
    ///           "go_away_every_ms": 1000},
    ///  "fcm": {}, "oauth": {}, "retry_after": {"form": "seconds", "seconds": 17},
    ///  "scripts": [{"route": "oauth", "count": 2, "fault": "unavailable"},
    ///              {"route": "fcm", "path": "p1", "count": 1, "fault": {"status": 502, "body": "<html>"}}]}
    /// ```
    ///
    /// A member that is left out counts as zero; without seed, routes and `retry_after` the plan in force stays.
    package init(json: [UInt8]) throws(SimulatorError) {
        let text: JSONValue
        do throws(JSONError) {
            text = try JSONValue(parsing: json, bytesMax: SimulatorLimits.controlBodyBytesMax)
        } catch {
            throw SimulatorError(.malformedJSON, "not JSON: \(error)")
        }
        guard let members = text.object?.members else { throw Self.invalid("an object is expected") }
        var plan = FaultPlan()
        var hasPlan = false
        var scripts: [FaultScript] = []
        for member in members {
            if member.name == "scripts" {
                guard let elements = member.value.array else { throw Self.invalid("scripts is not an array") }
                for element in elements { scripts.append(try Self.script(element)) }
                continue
            }
            hasPlan = true
            if let route = FaultRoute(name: member.name) {
                plan[route] = try Self.rates(member.value)
            } else if member.name == "seed", let seed = member.value.int64, seed >= 0 {
                plan.seed = UInt64(seed)
            } else if member.name == "retry_after" {
                plan.retryAfter = try Self.retryAfter(member.value)
            } else {
                throw Self.invalid("\(member.name) is unknown or out of range")
            }
        }
        guard plan.isValid else { throw Self.invalid("a probability or delay is out of range") }
        self.plan = hasPlan ? plan : nil
        self.scripts = scripts
    }

    private static func invalid(_ what: String) -> SimulatorError { SimulatorError(.invalidFaultPlan, what) }

    private static func rates(_ value: JSONValue) throws(SimulatorError) -> FaultRates {
        guard let members = value.object?.members else { throw Self.invalid("a route is not an object") }
        var rates = FaultRates()
        for member in members {
            guard let number = member.value.double else { throw Self.invalid("\(member.name) is not a number") }
            switch member.name {
            case "too_many_requests": rates.tooManyRequests = number
            case "unavailable": rates.unavailable = number
            case "internal_error": rates.internalError = number
            case "silence": rates.silence = number
            case "refusal": rates.refusal = number
            case "drop": rates.drop = number
            case "delay_ms": rates.delayMilliseconds = try Self.whole(member)
            case "jitter_ms": rates.jitterMilliseconds = try Self.whole(member)
            case "go_away_after": rates.goAwayAfterRequests = Int(try Self.whole(member))
            case "go_away_every_ms": rates.goAwayEveryMilliseconds = try Self.whole(member)
            default: throw Self.invalid("\(member.name) is unknown")
            }
        }
        return rates
    }

    private static func whole(_ member: JSONObject.Member) throws(SimulatorError) -> Int64 {
        guard let value = member.value.int64 else { throw Self.invalid("\(member.name) is not a whole number") }
        return value
    }

    private static func retryAfter(_ value: JSONValue) throws(SimulatorError) -> RetryAfterForm {
        guard let seconds = value["seconds"]?.int64, (0...86_400).contains(seconds) else {
            throw Self.invalid("retry_after needs seconds, 0 to 86,400")
        }
        switch value["form"]?.string ?? "seconds" {
        case "seconds": return .seconds(Int(seconds))
        case "date": return .date(seconds: Int(seconds))
        case "alternating": return .alternating(seconds: Int(seconds))
        default: throw Self.invalid("retry_after has the forms seconds, date and alternating")
        }
    }

    private static func script(_ value: JSONValue) throws(SimulatorError) -> FaultScript {
        guard let name = value["route"]?.string, let route = FaultRoute(name: name) else {
            throw Self.invalid("a script needs a route: apns, fcm or oauth")
        }
        let count = value["count"]?.int64 ?? 1
        guard (1...1_000_000_000).contains(count) else { throw Self.invalid("a script's count is out of range") }
        let fault: Fault
        if let name = value["fault"]?.string, let named = Fault.named.first(where: { $0.name == name }) {
            fault = named
        } else if let status = value["fault"]?["status"]?.int64, (200...599).contains(status) {
            fault = .answer(status: Int(status), body: value["fault"]?["body"]?.string ?? "")
        } else {
            throw Self.invalid("a script needs a fault: a name, or status and body")
        }
        return FaultScript(route: route, pathContains: value["path"]?.string, count: Int(count), fault: fault)
    }
}
