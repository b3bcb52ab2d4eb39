internal import ApusCore

/// Words of others on their way into logs and receipts.
package enum ProviderText {
    /// At most `Limits.providerTextBytesMax` bytes, without control characters: they could forge a log line or steer a
    /// terminal.
    package static func cleaned(_ text: String) -> String {
        let scalars = text.unicodeScalars.lazy.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: Unicode.Scalar(0x20 as UInt8)
            default: scalar
            }
        }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars.prefix(Limits.providerTextBytesMax))
        return String(result).clipped(toBytes: Limits.providerTextBytesMax)
    }
}
