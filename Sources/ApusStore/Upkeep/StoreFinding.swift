/// A place where the store contradicts itself.
package struct StoreFinding: Hashable, Sendable, CustomStringConvertible {
    /// The part of the store that was checked together, and can be checked again.
    package enum Scope: Hashable, Sendable {
        /// The records, ids and postings of a realm in a partition, and whether tokens and users lead to the records.
        case place(Realm, Int)
        /// The tokens of a partition.
        case tokens(Int)
        /// The users of a partition.
        case users(Int)
    }

    /// The repair of a finding.
    package enum Remedy: Hashable, Sendable {
        /// The record at the ordinal decides whether it belongs to the topic, and whether its id leads to it.
        case ordinal(UInt32, topic: UInt32)
        /// The device's hints are restored.
        case hints(device: String)
        /// A person must decide.
        case none
    }

    /// The part of the store.
    package let scope: Scope
    /// The contradiction, in words.
    package let description: String
    /// The repair.
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
