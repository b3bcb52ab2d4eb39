internal import ApusCore
internal import ApusService
internal import Glibc
internal import Synchronization

/// Writes data to standard output and messages to standard error.
package enum Console {
    /// True when messages go to a terminal that can redraw a line.
    package static let isInteractive = isatty(STDERR_FILENO) == 1 && Self.variable("TERM") != "dumb"

    /// True when data goes to a terminal that can be cleared.
    package static let isDataInteractive = isatty(STDOUT_FILENO) == 1 && Self.variable("TERM") != "dumb"

    /// Clears the terminal that data goes to, if it is one.
    package static func clear() {
        if Self.isDataInteractive { Self.write("\u{1b}[H\u{1b}[2J", to: STDOUT_FILENO) }
    }

    /// True when messages may be coloured, by https://no-color.org.
    static let isColoured = Self.isInteractive && (Self.variable("NO_COLOR") ?? "").isEmpty

    /// Writes a line of data.
    package static func data(_ line: String) { Self.data([line]) }

    /// Writes lines of data; what a terminal would obey in them is escaped, since much of it comes from devices and publishers.
    package static func data(_ lines: [String]) { Self.write(Self.text(of: lines), to: STDOUT_FILENO) }

    /// Returns what is written for lines of data. Pure.
    static func text(of lines: [String]) -> String { lines.map { $0.visible + "\n" }.joined() }

    /// Writes a message as a line.
    package static func message(_ line: String) { Self.write(line + "\n", to: STDERR_FILENO) }

    /// Writes a message as a line, unless it was written before.
    static func message(once line: String) {
        if Self.onceWritten.withLock({ $0.insert(line).inserted }) { Self.message(line) }
    }

    private static let onceWritten = Mutex<Set<String>>([])

    /// Writes a part of a message unchanged.
    package static func message(raw text: String) { Self.write(text, to: STDERR_FILENO) }

    /// Returns an environment variable; nil when it is not set.
    package static func variable(_ name: String) -> String? {
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe String(cString: value)
    }

    /// Returns the text in bold, if messages may be coloured.
    package static func bold(_ text: String) -> String { Self.isColoured ? "\u{1b}[1m\(text)\u{1b}[0m" : text }

    private static func write(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count > 0 else { return Self.handleFailure(errno, writingTo: descriptor) }
            rest = rest.dropFirst(count)
        }
    }

    /// Ends the process as failed when data cannot be written, as to a full disk: whoever has it must not take a part of it for all.
    private static func handleFailure(_ code: Int32, writingTo descriptor: Int32) {
        // A reader that has gone away does not need the rest; messages have no other place.
        guard code != EPIPE, descriptor == STDOUT_FILENO else { return }
        Self.message("Error: standard output cannot be written: \(SystemErrorText.words(code))")
        exit(CommandExit.failed)
    }
}
