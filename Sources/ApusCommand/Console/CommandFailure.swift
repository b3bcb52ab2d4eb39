/// Why a command could not do what was asked: one sentence that also tells the cure.
package struct CommandFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    package let description: String

    /// A failure.
    package init(_ sentence: String) { self.description = sentence }
}

/// How a command ends, beside success.
package enum CommandExit {
    /// It failed.
    package static let failed: Int32 = 1
    /// A part of it failed.
    package static let partlyFailed: Int32 = 2
}
