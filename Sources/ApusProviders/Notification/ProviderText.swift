internal import ApusCore

/// Cleans texts of providers for logs and receipts.
package enum ProviderText {
    /// Returns at most `Limits.providerTextBytesMax` bytes, without control characters, which could forge a log line or control a terminal.
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
