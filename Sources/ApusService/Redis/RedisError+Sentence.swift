package import ApusRedis

extension RedisError {
    /// Returns the sentence by which a check says what is wrong with Redis. It repeats nothing that a server has said.
    ///
    /// - Parameter place: the address of the server, or of those that were asked.
    package func sentence(about place: String) -> String {
        switch self.code {
        case .notConnected, .disconnected: "No connection to Redis at \(place)."
        case .timedOut: "Redis at \(place) does not answer."
        case .tls: "No TLS connection to Redis at \(place)."
        case .loading: "Redis at \(place) is still reading its data."
        case .noAuthentication: "Redis at \(place) demands a password."
        case .wrongPassword: "Redis at \(place) refuses the user or the password."
        case .noPermission: "Redis at \(place) refuses the user a command that a service needs."
        case .clusterDown: "The Redis Cluster at \(place) does not serve all of its slots."
        case .masterDown: "Redis at \(place) is a replica that has lost its master."
        case .busy: "Redis at \(place) is busy with a script."
        // The text is ours, and names the cure.
        case .configuration: "The settings of Redis at \(place) are wrong: \(self.message)."
        default: "Redis at \(place) answers with an error (\(self.code))."
        }
    }
}
