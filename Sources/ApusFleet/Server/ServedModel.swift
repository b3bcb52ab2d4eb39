internal import ApusTestKit
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Serves a new model in the place of a redis-server while `body` runs with its address.
///
/// - Parameter seed: the seed of the model's random members.
/// - Returns: what the model executed, in order.
package func withServedModel(seed: UInt64, _ body: (_ url: String) async throws -> Void) async throws -> [TapeEntry] {
    let folder = try TemporaryFolder()
    let recording = TapeRecording()
    let socketPath = "\(folder.path)/socket"
    let listener = try await ModelListener(
        socketPath: socketPath,
        port: nil,
        eventLoop: MultiThreadedEventLoopGroup.singleton.any(),
    ) {
        let model = RedisModel(seed: seed)
        model.tape = { recording.append($0) }
        return ModelServer(model)
    }
    do {
        try await body("unix://\(socketPath)")
    } catch {
        await listener.close()
        throw error
    }
    await listener.close()
    return recording.entries
}

/// Collects what a model executes on its event loop.
private final class TapeRecording: Sendable {
    private let state = Mutex<[TapeEntry]>([])

    var entries: [TapeEntry] { self.state.withLock { $0 } }

    func append(_ entry: TapeEntry) { self.state.withLock { $0.append(entry) } }
}
