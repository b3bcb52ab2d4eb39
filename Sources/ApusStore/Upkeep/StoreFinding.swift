/// A place where the store contradicts itself.
package struct StoreFinding: Hashable, Sendable, CustomStringConvertible {
    /// What was looked at together, and can be looked at again.
    package enum Scope: Hashable, Sendable {
        /// Records, ids and postings of a realm in a partition, and whether tokens and users lead to the records.
        case place(Realm, Int)
        /// The tokens of a partition.
        case tokens(Int)
        /// The users of a partition.
        case users(Int)
    }

    /// What puts it right.
    package enum Remedy: Hashable, Sendable {
        /// The record at the ordinal decides whether it belongs to the topic, and whether its id leads to it.
        case ordinal(UInt32, topic: UInt32)
        /// The device's hints are noted again.
        case hints(device: String)
        /// Nothing that a machine should decide.
        case none
    }

    /// Where.
    package let scope: Scope
    /// What, in words.
    package let description: String
    /// What to do about it.
    package let remedy: Remedy

    init(_ scope: Scope, _ description: String, _ remedy: Remedy = .none) {
        self.scope = scope
        self.description = description
        self.remedy = remedy
    }
}

/// A posting: the ordinals of a chunk that are in a topic.
struct PostingKey: Hashable, Sendable {
    let topic: UInt32
    let chunk: Int
}
