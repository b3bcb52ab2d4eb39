internal import ApusCore
package import ApusMessages
public import ApusRedis
internal import ApusTexts

/// The streams' part of the function library.
public enum StreamFunctions {
    /// The Lua text.
    public static var source: [UInt8] { EmbeddedText.streamFunctions }
}

/// Describes a failure between this process and the functions of the library.
public struct StreamError: DisposedError, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    public let description: String
    /// The consequence of the failure.
    package let disposition: Disposition

    /// Reports that a function answered a word that this version does not know, so the library in Redis is of another version.
    static func unexpected(function: String, answer: String) -> StreamError {
        StreamError(
            description: "\(function) answered \"\(answer)\": run `apus init` of this version",
            disposition: .retryLater,
        )
    }

    /// Reports that an operator's command is done, but that a failover may lose it.
    static func unreplicated(_ command: String, of name: String) -> StreamError {
        StreamError(
            description: "\(command) of \(name) is done, but no replica of Redis has confirmed it within "
                + "\(StreamLimits.replicaPatience): a failover may forget it. Look at the replicas, and give the command again",
            disposition: .giveBack,
        )
    }
}

/// Reports that what is left of a direct send cannot be kept: another send came by its id while it was on its way, or its app has too much
/// open.
package struct SendNotKeptError: DisposedError, Hashable, Sendable {
    /// The answer to the publisher: a duplicate, a conflict, or that the app has too much open.
    package let admission: Mailboxes.Admission

    package var disposition: Disposition { .bury }
}

extension MessageError: DisposedError {
    /// Buries a message that breaks a rule of the schema, or is larger than it may be, because it stays so.
    package var disposition: Disposition { .bury }
}
