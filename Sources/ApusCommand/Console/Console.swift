internal import Glibc

/// The two ways out: data to standard output, talk to standard error.
package enum Console {
    /// Whether talk goes to a person who can see a line being redrawn.
    package static let isInteractive = isatty(STDERR_FILENO) == 1 && Self.variable("TERM") != "dumb"

    /// Whether talk may be coloured: https://no-color.org
    package static let isColoured = Self.isInteractive && (Self.variable("NO_COLOR") ?? "").isEmpty

    /// Writes a line of data.
    package static func data(_ line: String) { Self.write(line + "\n", to: STDOUT_FILENO) }

    /// Writes a line of talk.
    package static func talk(_ line: String) { Self.write(line + "\n", to: STDERR_FILENO) }

    /// Writes talk as it is.
    package static func talk(raw text: String) { Self.write(text, to: STDERR_FILENO) }

    /// An environment variable; nil when it is not set.
    package static func variable(_ name: String) -> String? {
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe String(cString: value)
    }

    /// The text in bold, if talk may be coloured.
    package static func bold(_ text: String) -> String { Self.isColoured ? "\u{1b}[1m\(text)\u{1b}[0m" : text }

    private static func write(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            // Nobody reads any more: what is left concerns nobody.
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}
