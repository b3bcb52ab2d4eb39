public import ApusCore

/// A step of a trace that has ended, as OpenTelemetry knows it.
///
/// Source: https://opentelemetry.io/docs/specs/otel/trace/api/#span
public struct TraceSpan: Sendable, Hashable {
    /// Which side of an exchange it is; the numbers are OTLP's.
    public enum Kind: Int, Sendable, Hashable {
        /// Work within the service.
        case `internal` = 1
        /// A request to somebody else.
        case client = 3
        /// A message that was taken.
        case consumer = 5
    }

    /// A fact about it.
    public enum Value: Sendable, Hashable {
        /// Words.
        case text(String)
        /// A whole number.
        case integer(Int64)
    }

    /// `process apus:send`.
    public var name: String
    /// The trace, the span's own id, and whether anybody records it.
    public var context: TraceContext
    /// The step before it; nil: it begins the trace.
    public var parent: SpanID?
    /// The state that other systems carry along (W3C `tracestate`), unread.
    public var tracestate: String
    /// Which side of an exchange it is.
    public var kind: Kind
    /// Nanoseconds since 1970.
    public var startNanoseconds: Int64
    /// Nanoseconds since 1970; never before the start.
    public var endNanoseconds: Int64
    /// Facts by name.
    public var attributes: [String: Value]
    /// Why it failed; nil: it did not.
    public var failure: String?

    /// A span of that step of a trace.
    public init(
        _ name: String,
        _ kind: Kind,
        _ context: TraceContext,
        parent: SpanID?,
        tracestate: String = "",
        from startNanoseconds: Int64,
        to endNanoseconds: Int64,
        attributes: [String: Value] = [:],
        failure: String? = nil,
    ) {
        self.name = name
        self.kind = kind
        self.context = context
        self.parent = parent
        self.tracestate = tracestate
        self.startNanoseconds = startNanoseconds
        self.endNanoseconds = max(startNanoseconds, endNanoseconds)
        self.failure = failure
        self.attributes = attributes
    }
}

extension TraceSpan {
    /// As OTLP writes it in JSON: ids in hexadecimal, 64-bit numbers as text.
    ///
    /// Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
    var json: JSONObject {
        var json: JSONObject = [
            "traceId": .string(self.context.trace.description), "spanId": .string(self.context.span.description),
        ]
        if let parent { json["parentSpanId"] = .string(parent.description) }
        if !self.tracestate.isEmpty { json["traceState"] = .string(self.tracestate) }
        json["name"] = .string(self.name)
        json["kind"] = .integer(self.kind.rawValue)
        json["startTimeUnixNano"] = .string(String(self.startNanoseconds))
        json["endTimeUnixNano"] = .string(String(self.endNanoseconds))
        json["attributes"] = .array(
            self.attributes.sorted { $0.key < $1.key }.map { .object(Self.json($0.key, $0.value)) }
        )
        if let failure {
            // 2: an error.
            json["status"] = .object(["code": 2, "message": .string(failure)])
        }
        return json
    }

    static func json(_ key: String, _ value: Value) -> JSONObject {
        let written: JSONObject =
            switch value {
            case .text(let text): ["stringValue": .string(text)]
            case .integer(let number): ["intValue": .string(String(number))]
            }
        return ["key": .string(key), "value": .object(written)]
    }
}
