package import ApusCore
package import ApusMessages

/// What a rendering depends on besides the notification.
package struct RenderContext: Hashable, Sendable {
    /// The send; what a repeat is recognised by on the device.
    package let send: SendID
    /// When it was published: a time to live counts from here.
    package let publishedAt: UnixMilliseconds
    /// When it was to go out: what a Live Activity's change is dated. The same whenever it is rendered, for of two changes a
    /// device keeps the one with the later date, and a retry of the older must not pass for it.
    ///
    /// Source: https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    package let dueAt: UnixMilliseconds
    /// When it is rendered: for providers that are told how long is left.
    package let now: UnixMilliseconds
    /// Whether the send was accepted before: then by the rules of that version, and a rule that came since must not fail it.
    package let isAccepted: Bool

    /// The member of a payload that carries the send's id, so that apps can tell what became of it.
    package static let sendMember = "apus.send"
    /// The same among data, where no dot should stand.
    package static let sendDataKey = "apus_send"

    /// A context.
    ///
    /// - Parameters:
    ///   - notBefore: the later time that the publisher asked for, if any.
    ///   - isAccepted: whether the send was accepted before.
    package init(
        send: SendID,
        publishedAt: UnixMilliseconds,
        notBefore: UnixMilliseconds? = nil,
        now: UnixMilliseconds,
        isAccepted: Bool = false,
    ) {
        self.send = send
        self.publishedAt = publishedAt
        self.dueAt = max(publishedAt, notBefore ?? publishedAt)
        self.now = now
        self.isAccepted = isAccepted
    }
}

extension Notification.Expiry {
    /// The moment it stands for.
    package func deadline(publishedAt: UnixMilliseconds) -> UnixMilliseconds {
        switch self {
        case .at(let time): time
        case .ttl(let milliseconds): publishedAt.advanced(byMilliseconds: milliseconds)
        }
    }

    /// Whether it asks for one attempt and no storage.
    package var isOneAttempt: Bool { self == .ttl(milliseconds: 0) }
}

extension Notification {
    /// The words in another language: what the variant says replaces the notification's own, and a localisation key in
    /// the app gives way to a text.
    package func replacingWords(by variant: LocaleVariant) -> Notification {
        var result = self
        if !variant.title.isEmpty {
            result.title = variant.title
            result.titleLocKey = ""
            result.titleLocArgs = []
        }
        if !variant.subtitle.isEmpty {
            result.subtitle = variant.subtitle
            result.subtitleLocKey = ""
            result.subtitleLocArgs = []
        }
        if !variant.body.isEmpty {
            result.body = variant.body
            result.bodyLocKey = ""
            result.bodyLocArgs = []
        }
        if !variant.image.isEmpty { result.image = variant.image }
        if !variant.clickAction.isEmpty { result.clickAction = variant.clickAction }
        return result
    }

    /// What a provider merges under: the publisher's key, else the send's id for an alert, so that a repeat after a crash
    /// replaces the first instead of standing beside it.
    package func collapseID(of send: SendID) -> String? {
        if !self.collapseKey.isEmpty { return self.collapseKey }
        return self.kind == .alert ? send.text : nil
    }

    /// What replaces what on an Android screen: the publisher's tag, else what the provider merges under.
    package func displayTag(of send: SendID) -> String? {
        if !self.tag.isEmpty { return self.tag }
        return self.kind == .alert ? self.collapseID(of: send) : nil
    }
}
