package import ApusCore
package import ApusMessages

/// Holds the inputs of a rendering besides the notification.
package struct RenderContext: Hashable, Sendable {
    /// The send, by which the device recognises a repetition.
    package let send: SendID
    /// The time of publication, from which a time to live counts.
    package let publishedAt: UnixMilliseconds
    /// The time at which the send is due, which dates a Live Activity's change. It is the same for every rendering,
    /// because a device keeps the change with the later date, and a retry of an older change must not pass for a newer
    /// one.
    ///
    /// Source: https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    package let dueAt: UnixMilliseconds
    /// The time of rendering, for providers that are told the remaining time.
    package let now: UnixMilliseconds
    /// True when the send was accepted before, by the rules of that version: a later rule must not fail it.
    package let isAccepted: Bool

    /// The member of a payload that carries the send's id, so that apps can report on the notification.
    package static let sendMember = "apus.send"
    /// The same among data, whose keys should hold no dot.
    package static let sendDataKey = "apus_send"

    /// Creates a context.
    ///
    /// - Parameters:
    ///   - notBefore: the later time that the publisher asked for, if any.
    ///   - isAccepted: true when the send was accepted before.
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

extension Notification {
    /// Returns the notification in another language: the variant's texts replace the notification's own, and a
    /// localisation key of the app gives way to a text.
    package func replacingTexts(by variant: LocaleVariant) -> Notification {
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

    /// Returns the provider's collapse id: the publisher's key, otherwise the send's id for an alert, so that a
    /// repetition after a crash replaces the first instead of standing beside it.
    package func collapseID(of send: SendID) -> String? {
        if !self.collapseKey.isEmpty { return self.collapseKey }
        return self.kind == .alert ? send.text : nil
    }

    /// Returns the tag by which an Android notification replaces another: the publisher's tag, otherwise the collapse id.
    package func displayTag(of send: SendID) -> String? {
        if !self.tag.isEmpty { return self.tag }
        return self.kind == .alert ? self.collapseID(of: send) : nil
    }
}
