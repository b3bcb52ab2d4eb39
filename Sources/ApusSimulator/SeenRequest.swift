public import ApusCore

/// A notification that a strict simulator accepted, as it came.
public struct SeenRequest: Sendable {
    /// Whose the listener is.
    public let provider: Provider
    /// ":path".
    public let path: String
    /// The rest of the headers, in the order they came.
    public let headers: [(name: String, value: String)]
    /// Raw.
    public let body: [UInt8]

    init(_ provider: Provider, _ request: ProviderRequest) {
        self.provider = provider
        self.path = request.path
        self.headers = request.headers.map { ($0.name, $0.value) }
        self.body = request.body
    }
}
