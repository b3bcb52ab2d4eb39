internal import ApusCore

/// What was made of sends, kept while they are worked on: bounded in number and bytes, the least recently used goes first. Pure.
///
/// What nobody used for a while is not given out any more: its send may have ended meanwhile, and another may have its id.
struct ContextShelf<Context> {
    private struct Page {
        var context: Context
        var byteCount = 0
        /// In the order of uses.
        var use: UInt64
        var usedAt: UnixMilliseconds
        var keptAt: UnixMilliseconds
        /// How old it may become, however often it is used; nil: any age.
        var ageMillisecondsMax: Int64?
    }

    private let pagesMax: Int
    private let bytesMax: Int
    private let idleMillisecondsMax: Int64
    private var pages: [String: Page] = [:]
    private var uses: UInt64 = 0
    private(set) var byteCount = 0

    /// An empty shelf.
    ///
    /// - Parameter idleMillisecondsMax: must be less than any ledger is kept after its send has ended: as long as that is there, the id
    ///   is not taken again.
    init(
        pagesMax: Int = SendBook.contextsMax,
        bytesMax: Int = SendBook.contextBytesMax,
        idleMillisecondsMax: Int64 = SendBook.idleMillisecondsMax,
    ) {
        precondition(pagesMax > 0 && bytesMax >= 0 && idleMillisecondsMax > 0)
        self.pagesMax = pagesMax
        self.bytesMax = bytesMax
        self.idleMillisecondsMax = idleMillisecondsMax
    }

    var count: Int { self.pages.count }

    /// What is kept under that key; nil: nothing, or too old.
    mutating func use(_ key: String, now: UnixMilliseconds) -> Context? {
        guard let page = self.pages[key] else { return nil }
        // A clock that was set back says nothing of how long it was.
        guard (0...self.idleMillisecondsMax).contains(now.milliseconds(since: page.usedAt)) else {
            self.drop(key)
            return nil
        }
        if let ageMax = page.ageMillisecondsMax, now.milliseconds(since: page.keptAt) > ageMax {
            self.drop(key)
            return nil
        }
        self.uses += 1
        self.pages[key]?.use = self.uses
        self.pages[key]?.usedAt = now
        return page.context
    }

    /// Keeps something, which weighs nothing yet.
    mutating func keep(_ context: Context, _ key: String, now: UnixMilliseconds) {
        self.drop(key)
        self.uses += 1
        self.pages[key] = Page(context: context, use: self.uses, usedAt: now, keptAt: now)
        self.makeRoom(beside: key)
    }

    /// Says how much that weighs, and how old it may become.
    mutating func weigh(_ key: String, _ byteCount: Int, ageMillisecondsMax: Int64? = nil) {
        guard let page = self.pages[key] else { return }
        self.byteCount += byteCount - page.byteCount
        self.pages[key]?.byteCount = byteCount
        self.pages[key]?.ageMillisecondsMax = ageMillisecondsMax
        self.makeRoom(beside: key)
    }

    /// Forgets it.
    mutating func drop(_ key: String) {
        guard let page = self.pages.removeValue(forKey: key) else { return }
        self.byteCount -= page.byteCount
    }

    /// The newest stays whatever it weighs: somebody is about to work with it.
    private mutating func makeRoom(beside key: String) {
        while self.pages.count > self.pagesMax || self.byteCount > self.bytesMax {
            let others = self.pages.filter { $0.key != key }
            guard let oldest = others.min(by: { $0.value.use < $1.value.use }) else { return }
            self.drop(oldest.key)
        }
    }
}
