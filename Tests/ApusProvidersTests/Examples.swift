import ApusAPNs
import ApusCore
import ApusFCM
import ApusMessages
import ApusProviders

/// A notification made in one expression.
func notification(_ kind: Notification.Kind = .alert, _ change: (inout Notification) -> Void = { _ in }) -> Notification
{
    var notification = Notification()
    notification.kind = kind
    if kind == .alert { notification.body = "Hello" }
    change(&notification)
    return notification
}

/// Published at second 1,700,000,000, rendered half a second later.
func context(send: String = "send-1", notBefore: UnixMilliseconds? = nil) throws -> RenderContext {
    RenderContext(
        send: try SendID(send),
        publishedAt: UnixMilliseconds(seconds: 1_700_000_000),
        notBefore: notBefore,
        now: UnixMilliseconds(1_700_000_000_500),
    )
}

func renderAPNs(_ notification: Notification, bundleID: String = "com.example.app") throws -> RenderedAPNsMessage {
    try APNsRenderer(bundleID: bundleID).render(notification, context: context()).base
}

func renderFCM(_ notification: Notification, target: FCMTarget = .token) throws -> RenderedFCMMessage {
    try FCMRenderer.render(notification, target: target, context: context()).base
}

extension RenderedBody {
    var text: String { String(decoding: self.bytes(token: "TOKEN", badge: 7), as: UTF8.self) }

    /// Read back by the parser, which knows nothing of how it was written.
    func json() throws -> JSONValue {
        try JSONValue(parsing: self.bytes(token: "TOKEN", badge: 7), bytesMax: 64 * 1_024, depthMax: 32)
    }
}

extension RenderedAPNsMessage {
    func header(_ name: String) -> String? { self.headers.first { $0.name == name }?.value }
}

/// The code and field of the refusal, as "code field"; "sent" when there is none.
func refusal(_ body: () throws -> Void) -> String {
    do {
        try body()
        return "sent"
    } catch let problem as Problem {
        return "\(problem.code) \(problem.field)"
    } catch {
        return "\(error)"
    }
}
