/// Holds markup. Text becomes a part of it by interpolation only, which escapes it: `"<p>\(text)</p>"`.
struct HTML: Hashable, Sendable, ExpressibleByStringInterpolation, CustomStringConvertible {
    /// The markup.
    private(set) var description: String

    /// Collects the parts of an interpolated literal.
    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) {
            self.text.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        /// Appends markup as it stands in the source.
        mutating func appendLiteral(_ literal: String) { self.text += literal }

        /// Appends markup.
        mutating func appendInterpolation(_ html: HTML) { self.text += html.description }

        /// Appends markup of several parts.
        mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { self.text += part.description } }

        /// Appends text, whose special characters are escaped. It may stand between tags and in quoted attributes.
        mutating func appendInterpolation(_ text: String) { HTML.append(text, to: &self.text) }

        /// Appends a number.
        mutating func appendInterpolation(_ number: some BinaryInteger) { self.text += "\(number)" }
    }

    /// Creates markup from a literal of the source.
    init(stringLiteral text: String) { self.description = text }

    /// Creates markup from a literal with escaped texts in it.
    init(stringInterpolation parts: StringInterpolation) { self.description = parts.text }

    /// Holds no markup.
    static let none: HTML = ""

    /// True when there is no markup.
    var isEmpty: Bool { self.description.isEmpty }

    private static func append(_ text: String, to output: inout String) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": output += "&amp;"
            case "<": output += "&lt;"
            case ">": output += "&gt;"
            case "\"": output += "&quot;"
            case "'": output += "&#39;"
            // A browser reads one that is written as it is as a line feed, and an event stream as the end of a line.
            case "\r": output += "&#13;"
            case "\u{0}"..<"\u{9}", "\u{b}"..<"\u{d}", "\u{e}"..<"\u{20}": output += "\u{fffd}"
            default: output.unicodeScalars.append(scalar)
            }
        }
    }
}
