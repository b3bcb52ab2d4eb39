/// Whose certificates are believed.
package enum TLSTrust: Sendable {
    /// The authorities of the operating system (on Debian, the package `ca-certificates`).
    case system
    /// The authorities in that PEM file.
    case file(String)
    /// The authorities in that PEM text.
    case pem(String)
}
