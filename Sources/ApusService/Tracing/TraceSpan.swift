public import ApusCore

/// Describes a finished step of a trace, as OpenTelemetry defines it.
///
/// Source: https://opentelemetry.io/docs/specs/otel/trace/api/#span
public struct TraceSpan: Sendable, Hashable {
    /// The role of the span in an exchange; the numbers are OTLP's.
    public enum Kind: Int, Sendable, Hashable {
        /// Work within the service.
        case `internal` = 1
        /// A request to another service.
        case client = 3
        /// The processing of a received message.
        case consumer = 5
    }

    /// The values of attributes.
    public enum Value: Sendable, Hashable {
        /// A text.
        case text(String)
        /// A whole number.
        case integer(Int64)
    }

    /// The name, such as `process apus:send`.
    public var name: String
    /// The ids of the trace and the span, and the sampling flag.
    public var context: TraceContext
    /// The parent span; nil when this span begins the trace.
    public var parent: SpanID?
    /// The state that other systems carry along (W3C `tracestate`), unread.
    public var tracestate: String
    /// The role of the span in an exchange.
    public var kind: Kind
    /// The start in nanoseconds since 1970.
    public var startNanoseconds: Int64
    /// The end in nanoseconds since 1970; never before the start.
    var endNanoseconds: Int64
    /// The attributes by name.
    public var attributes: [String: Value]
    /// The reason of a failure; nil for success.
    public var failure: String?

    /// Creates the span of a step of a trace.
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
    /// The span in OTLP's JSON form: ids in hexadecimal, 64-bit numbers as text.
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
            // 2 is OTLP's code for an error.
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
