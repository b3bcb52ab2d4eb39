internal import FoundationEssentials
internal import Glibc
internal import NIOCore

/// Puts errors of the operating system into words.
package enum SystemErrorText {
    /// Returns the system's sentence for an error number, such as "no such file or directory".
    package static func words(_ number: Int32) -> String {
        let text = unsafe String(cString: strerror(number))
        // Names such as "RPC" keep their capitals.
        guard text.dropFirst().first?.isUppercase != true else { return text }
        return text.prefix(1).lowercased() + text.dropFirst()
    }

    /// Returns an error in words: the system's own for what it refused, else what the error says of itself.
    package static func words(of error: any Error) -> String {
        switch error {
        case let error as IOError: return Self.words(error.errnoCode)
        case let error as CocoaError: return Self.words(of: error.code)
        case let error as POSIXError: return Self.words(error.code.rawValue)
        default: return "\(error)"
        }
    }

    /// Returns the reason why a file could not be used: that it cannot be read, in the system's words, else the error's own.
    package static func reason(for path: String, _ error: any Error) -> String {
        fileProblem(path) ?? Self.words(of: error)
    }

    private static func words(of code: CocoaError.Code) -> String {
        switch code {
        case .fileNoSuchFile, .fileReadNoSuchFile: Self.words(ENOENT)
        case .fileReadNoPermission, .fileWriteNoPermission: Self.words(EACCES)
        case .fileWriteOutOfSpace: Self.words(ENOSPC)
        case .fileWriteVolumeReadOnly: Self.words(EROFS)
        case .fileWriteFileExists: Self.words(EEXIST)
        default: "the file system refused it (code \(code.rawValue))"
        }
    }
}

/// Reports that a service cannot listen at an address, with the reason and the setting that names the address.
package struct ListenError: Error, CustomStringConvertible {
    /// The sentence.
    package let description: String

    /// Creates the report of an error that a listener ended with; nil when it is no error of the system.
    ///
    /// - Parameter key: the key of the setting, such as `admin.listen`.
    package init?(_ error: any Error, at address: ListenAddress, key: String) {
        guard let system = error as? IOError else { return nil }
        let place = "\(address.host):\(address.port)"
        self.description =
            switch system.errnoCode {
            case EADDRINUSE:
                "port \(address.port) is in use on \(address.host): stop the program that has it, or set \(key) to another address"
            case EACCES: "\(place) may not be listened on (\(Self.words(system))): set \(key) to a port from 1024 on"
            case EADDRNOTAVAIL: "\(place) is no address of this machine: set \(key) to one that is, or to 0.0.0.0"
            default: "\(place) cannot be listened on: \(Self.words(system)); the address is \(key)"
            }
    }

    private static func words(_ error: IOError) -> String { SystemErrorText.words(error.errnoCode) }
}
