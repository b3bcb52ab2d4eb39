public import ApusCore

/// Lets tests write the key of a send as it stands in Redis: "shop/news-1".
extension SendKey: ExpressibleByStringLiteral {
    /// Parses the literal; traps if it is no `<app>/<id>`.
    public init(stringLiteral text: String) {
        guard let key = SendKey(text) else { preconditionFailure("\(text) is not <app>/<id>") }
        self = key
    }
}
