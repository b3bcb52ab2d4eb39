public import ApusCore
public import Logging

extension Logger {
    /// Puts the ids of a trace and of its step, if there are any, into every line: `trace_id` and `span_id`, as OpenTelemetry
    /// names them (https://opentelemetry.io/docs/specs/otel/compatibility/logging_trace_context/).
    public func traced(_ context: TraceContext?) -> Logger {
        guard let context else { return self }
        var logger = self
        logger[metadataKey: "trace_id"] = "\(context.trace)"
        logger[metadataKey: "span_id"] = "\(context.span)"
        return logger
    }
}
