internal import ApusCore
internal import ApusRedis
internal import ApusTerminal
internal import HTTPTypes

/// Describes why a page cannot be shown, or something cannot be done.
struct ConsoleFailure: Error, CustomStringConvertible {
    var status: HTTPResponse.Status
    var title: String
    var detail: String
    var description: String { "\(self.title): \(self.detail)" }

    init(_ status: HTTPResponse.Status, _ title: String, _ detail: String) {
        self.status = status
        self.title = title
        self.detail = detail
    }

    static let missing = ConsoleFailure(.notFound, "Not found", "There is no such page.")

    /// Puts any error into words that a person can act on.
    init(_ error: any Error) {
        switch error {
        case let failure as ConsoleFailure: self = failure
        case let failure as CommandFailure: self.init(.unprocessableContent, "That did not work", "\(failure)")
        case let error as IdentifierError: self.init(.unprocessableContent, "That did not work", "It is \(error).")
        case let error as RedisError:
            self.init(
                .serviceUnavailable,
                "Redis cannot be asked",
                "Redis says: \(error.message). Try again in a moment."
            )
        default: self.init(.internalServerError, "That did not work", "\(error)")
        }
    }
}
