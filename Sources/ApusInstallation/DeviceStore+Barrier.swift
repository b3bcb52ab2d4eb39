internal import ApusRedis
package import ApusStore
package import ApusStreams

extension DeviceStore {
    /// Returns the same store, in which a token's entry forgets former holders only when replicas have their removal, where there are any.
    ///
    /// Who waits at the barrier for the registration of the next holder does not wait for the servers of the former ones, and whoever asks
    /// again does not know them any more.
    ///
    /// - Parameter barrier: the barrier; nil: nobody waits.
    package func guarded(by barrier: ReplicaBarrier?) -> DeviceStore {
        var store = self
        guard let barrier else {
            store.replicaWaits = nil
            return store
        }
        store.replicaWaits = { (slots, home) async throws(RedisError) -> ReplicaWait in
            try await barrier.begin(for: slots, acknowledgedAt: home)
        }
        return store
    }
}

extension Installation {
    /// Calls a function with a guarded store, for whoever changes devices outside of the services.
    package func withGuardedStore<Value>(_ body: (DeviceStore) async throws -> Value) async throws -> Value {
        let barrier = ReplicaBarrier(self.client)
        do {
            let result = try await body(self.store.guarded(by: barrier))
            await barrier.close()
            return result
        } catch {
            await barrier.close()
            throw error
        }
    }
}
