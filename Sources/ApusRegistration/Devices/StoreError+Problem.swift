internal import ApusMetrics
internal import ApusRedis
internal import ApusStore

extension ProblemDetails {
    /// Creates the problem that the caller gets. Redis' own words stay out of it.
    init(_ error: StoreError) {
        switch error.code {
        case .invalidToken: self = .invalid("#/token", error.detail)
        case .tooManyTopics: self = .invalid("#/topics", error.detail)
        case .topicLimit: self = .invalid("#/topics", error.detail)
        case .deviceLimit: self = .invalid("#", error.detail)
        case .invalidRegistration: self = .invalid("#", error.detail)
        case .preconditionFailed: self = ProblemDetails(.preconditionFailed, error.detail)
        case .foreign: self = .foreign(error.detail)
        case .tooManyAddresses: self = .invalid("#", error.detail)
        case .collision: self = ProblemDetails(.conflict, error.detail)
        case .contended: self = .unavailable(error.detail, retryAfterSeconds: 1, cause: "\(error)")
        case .full: self = .unavailable("the store is full", retryAfterSeconds: 60, cause: "\(error)")
        case .sealed: self = .unavailable("the store cannot be read", retryAfterSeconds: 30, cause: "\(error)")
        case .redis where error.redis?.code == .noReplicas:
            self = .unavailable("no replica has the change yet", retryAfterSeconds: 1, cause: "\(error)")
        case .redis:
            let isFull = error.redis?.code == .outOfMemory
            self = .unavailable(
                isFull ? Self.full : "the store cannot be reached",
                retryAfterSeconds: isFull ? 30 : 2,
                cause: "\(error)",
            )
        default: self.init(unexpected: error)
        }
    }

    /// Creates the problem for a caller whose command cannot be written into a stream, or whose entries cannot be read.
    init(streams error: RedisError) {
        let isFull = error.code == .outOfMemory
        self = .unavailable(
            isFull ? Self.full : "the streams cannot be reached",
            retryAfterSeconds: isFull ? 30 : 2,
            cause: "\(error)",
        )
    }

    /// The sentence about a Redis that has no room.
    private static let full = "there is no room: Redis has reached its memory limit"
}

extension RegisterResult.Change {
    /// The cause in metrics.
    var metric: DeviceChange.Change {
        switch self {
        case .created: .created
        case .updated: .updated
        case .unchanged: .unchanged
        case .tokenReplaced: .tokenReplaced
        case .ignored: .ignored
        }
    }
}

extension DeviceStore.ChangeResult {
    /// The change in metrics, and the device; nil when there is none.
    var metric: (DeviceChange.Change, StoredDevice)? {
        switch self {
        case .changed(let device): (.updated, device)
        case .unchanged(let device): (.unchanged, device)
        case .ignored(let device): (.ignored, device)
        case .missing: nil
        }
    }
}
