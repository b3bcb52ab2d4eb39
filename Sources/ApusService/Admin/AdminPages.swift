public import ApusCore
internal import Synchronization

/// Holds what a service answers at its admin endpoints beside those that every service has: JSON by path.
public final class AdminPages: Sendable {
    private let pages = Mutex<[String: @Sendable () async -> JSONObject?]>([:])

    /// Creates no pages.
    public init() {}

    /// Adds a page.
    ///
    /// - Parameters:
    ///   - name: the path without its slash, such as `scale`.
    ///   - answer: creates the body; nil while it is not available, which is answered as 503.
    public func add(_ name: String, _ answer: @escaping @Sendable () async -> JSONObject?) {
        self.pages.withLock { pages in
            precondition(pages[name] == nil, "two pages are named \(name)")
            pages[name] = answer
        }
    }

    /// Returns the page of that name; nil when there is none.
    func page(_ name: String) -> (@Sendable () async -> JSONObject?)? { self.pages.withLock { $0[name] } }
}
