internal import ApusCore
internal import ApusStore
internal import Synchronization

/// Caches the names of topics by their numbers; a number keeps its name.
final class TopicNames: Sendable {
    /// The maximum of names in the cache; beyond it the cache is emptied.
    static let countMax = 65_536

    private struct Key: Hashable {
        let app: AppID
        let number: UInt32
    }

    private let store: DeviceStore
    private let known = Mutex<[Key: String]>([:])

    init(_ store: DeviceStore) { self.store = store }

    /// Returns the names, in alphabetical order. A number without a name is left out.
    func names(_ app: AppID, _ numbers: [UInt32]) async throws(StoreError) -> [String] {
        guard !numbers.isEmpty else { return [] }
        var names: [String] = []
        var missing: [UInt32] = []
        self.known.withLock { known in
            for number in numbers {
                if let name = known[Key(app: app, number: number)] {
                    names.append(name)
                } else {
                    missing.append(number)
                }
            }
        }
        if !missing.isEmpty {
            let found = try await self.store.topicNames(app, missing)
            self.known.withLock { known in
                if known.count + missing.count > Self.countMax { known.removeAll() }
                for (number, name) in zip(missing, found) {
                    guard let name else { continue }
                    known[Key(app: app, number: number)] = name.text
                    names.append(name.text)
                }
            }
        }
        return names.sorted()
    }
}
