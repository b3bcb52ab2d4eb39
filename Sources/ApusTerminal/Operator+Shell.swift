package import ApusStreams
internal import FoundationEssentials

extension Operator {
    /// The user of this process, as "user@host".
    package static let shell: Operator = {
        let environment = ProcessInfo.processInfo.environment
        let user = environment["USER"] ?? environment["LOGNAME"] ?? ProcessInfo.processInfo.userName
        return Operator("\(user)@\(ProcessInfo.processInfo.hostName)", through: .commandLine)
    }()
}
