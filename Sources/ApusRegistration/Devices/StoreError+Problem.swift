internal import ApusMetrics
internal import ApusRedis
internal import ApusStore

extension ProblemDetails {
    /// What the asker is told of a store's error. What Redis says stays here.
    init(_ error: StoreError) {
        switch error.code {
        case .invalidToken: self = .invalid("#/token", error.detail)
        case .tooManyTopics: self = .invalid("#/topics", error.detail)
        case .topicLimit: self = .invalid("#/topics", error.detail)
        case .invalidRegistration: self = .invalid("#", error.detail)
        case .preconditionFailed: self = ProblemDetails(.preconditionFailed, error.detail)
        case .foreign: self = .foreign(error.detail)
        case .tooManyAddresses: self = .invalid("#", error.detail)
        case .collision: self = ProblemDetails(.conflict, error.detail)
        case .contended: self = .unavailable(error.detail, retryAfterSeconds: 1, cause: "\(error)")
        case .full: self = .unavailable("the store is full", retryAfterSeconds: 60, cause: "\(error)")
        case .redis:
            let isFull = error.redis?.code == .outOfMemory
            self = .unavailable(
                "the store cannot be reached",
                retryAfterSeconds: isFull ? 30 : 2,
                cause: "\(error)",
            )
        default: self.init(unexpected: error)
        }
    }
}

extension RegisterResult.Change {
    /// As metrics count it.
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
    /// As metrics count it, and the device; nil: there is none.
    var metric: (DeviceChange.Change, StoredDevice)? {
        switch self {
        case .changed(let device): (.updated, device)
        case .unchanged(let device): (.unchanged, device)
        case .ignored(let device): (.ignored, device)
        case .missing: nil
        }
    }
}
