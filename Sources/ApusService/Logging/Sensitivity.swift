public import Logging

/// How much a value of a log line may show: an attribute of the value, obeyed by the handler.
///
///     logger.info("registered", metadata: ["user": "\(user, sensitivity: .sensitive)"])
public enum Sensitivity: Int64, Logger.MetadataValueAttributes.Attribute {
    /// May be read by anyone who reads logs.
    case open = 1
    /// Never written: the handler puts `<redacted>` in its place.
    case sensitive = 2
}

extension Logger.MetadataValue.StringInterpolation {
    /// A value with its sensitivity; one sensitive part hides the whole value.
    public mutating func appendInterpolation(_ value: some CustomStringConvertible, sensitivity: Sensitivity) {
        self.appendInterpolation(value.description, attributes: [sensitivity])
    }
}
