internal import ApusCore
internal import ApusMessages
internal import ApusStreams

/// Merges the dead letters of all shards, the newest first, reading of each shard only what is needed. Pure.
struct DeadLetterMerge {
    /// A shard, of which a page at a time is known.
    private struct Shard {
        var letters: ArraySlice<StoredDeadLetter> = []
        /// The entry that the next page is before; nil when there are no more.
        var next: String? = "+"
    }

    private var shards: [Shard]

    /// Creates a merge of shards that are still to be read.
    init(shards: Int) { self.shards = Array(repeating: Shard(), count: shards) }

    /// A page that has to be added before the next letter is known; nil when none has.
    var wanted: (shard: Int, before: String)? {
        for (shard, state) in self.shards.enumerated() where state.letters.isEmpty {
            if let before = state.next { return (shard, before) }
        }
        return nil
    }

    /// Adds the wanted page of a shard.
    ///
    /// - Parameter next: the entry that the page after it is before; nil when there are no more.
    mutating func add(_ letters: [StoredDeadLetter], next: String?, of shard: Int) {
        self.shards[shard] = Shard(letters: letters[...], next: next)
    }

    /// Takes the newest of the letters at hand; nil when there are none.
    mutating func next() -> StoredDeadLetter? {
        var newest: (shard: Int, letter: StoredDeadLetter)?
        for (shard, state) in self.shards.enumerated() {
            guard let letter = state.letters.first else { continue }
            if let found = newest, !Self.isNewer(letter, than: found.letter) { continue }
            newest = (shard, letter)
        }
        guard let newest else { return nil }
        self.shards[newest.shard].letters.removeFirst()
        return newest.letter
    }

    /// Returns true for the letter that was given up later, else for that of the later shard or entry.
    static func isNewer(_ one: StoredDeadLetter, than other: StoredDeadLetter) -> Bool {
        (other.letter.at, other.id.shard, other.id.entry) < (one.letter.at, one.id.shard, one.id.entry)
    }
}
