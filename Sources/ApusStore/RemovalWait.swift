package import ApusRedis

extension DeviceStore {
    /// Waits until replicas have what was done in some slots since it was made.
    package typealias ReplicaWait = @Sendable () async throws(RedisError) -> Void

    /// Makes a wait for changes that begin then: of their slots, and of the slot of what leads to them. A server that has both keeps their
    /// order, and is not waited for.
    package typealias ReplicaWaits =
        @Sendable (_ slots: [HashTag], _ home: HashTag) async throws(RedisError) -> ReplicaWait

    /// Begins the removal of devices from the holders of a token: its entry names them until the wait has ended.
    func beginRemoval(
        of owners: [DeviceOwner],
        from token: StoreCalls.Placed,
    ) async throws(StoreError) -> RemovalWait {
        guard let replicaWaits, !owners.isEmpty else { return RemovalWait() }
        do throws(RedisError) {
            let slots = owners.map { self.keys.tag($0.partition) }
            return RemovalWait(until: try await replicaWaits(slots, self.keys.tag(token.partition)))
        } catch {
            throw StoreError(.redis, "\(error)", redis: error)
        }
    }
}

/// The wait between the removal of devices and that of what leads to them. Masters of a cluster lose writes apart: one that brings a
/// device back, of which another one knows nothing any more, would keep it beside the one that has its token now.
struct RemovalWait: Sendable {
    private let replicas: DeviceStore.ReplicaWait?

    /// Creates a wait; nil: for nothing.
    init(until replicas: DeviceStore.ReplicaWait? = nil) { self.replicas = replicas }

    /// Returns once replicas have the removal, or at once where nobody waits for them.
    func end() async throws(StoreError) {
        guard let replicas else { return }
        do throws(RedisError) { try await replicas() } catch {
            throw StoreError(.redis, "a removal may be lost: \(error)", redis: error)
        }
    }
}
