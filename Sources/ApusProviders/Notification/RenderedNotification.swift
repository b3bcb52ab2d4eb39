/// Holds a notification rendered for one provider: once in its own language, and once per other language.
///
/// Its generic functions are inlinable and take closures instead of key paths, because unspecialized code and key paths took a tenth of
/// the instructions of a single send.
package struct RenderedNotification<Message: Sendable>: Sendable {
    /// The notification's own language first, then each of its locale variants, in order.
    package let variants: [Message]
    /// Chooses among the variants.
    package let locales: LocaleTable

    /// - Parameters:
    ///   - base: the message in the notification's own language.
    ///   - others: the messages in other languages, each under its locale.
    @inlinable
    package init(base: Message, others: [(locale: String, message: Message)]) {
        var variants = [base]
        for other in others { variants.append(other.message) }
        self.init(variants: variants, locales: LocaleTable(others.map { $0.locale }))
    }

    @usableFromInline
    init(variants: [Message], locales: LocaleTable) {
        self.variants = variants
        self.locales = locales
    }

    /// The message in the notification's own language.
    package var base: Message { self.variants[0] }

    /// Returns the index in ``variants`` for a device with the given locale; see ``LocaleTable/variantIndex(forLocale:)``.
    package func variantIndex(forLocale locale: Span<UInt8>) -> Int { self.locales.variantIndex(forLocale: locale) }

    /// Returns the message for a device with the given locale.
    package subscript(locale locale: String) -> Message {
        self.variants[self.variantIndex(forLocale: Array(locale.utf8).span)]
    }

    /// Transforms each message, into a request's template for example, under the same locales.
    @inlinable
    package func map<Other: Sendable, E: Error>(
        _ transform: (Message) throws(E) -> Other
    ) throws(E) -> RenderedNotification<Other> {
        RenderedNotification<Other>(variants: try self.variants.map(transform), locales: self.locales)
    }
}

/// Stores locales in one run of bytes that is searched without allocating.
///
/// The comparison ignores case and treats `_` as `-`: systems say `pt_BR` where BCP 47 says `pt-BR`.
package struct LocaleTable: Sendable {
    private var bytes: [UInt8] = []
    /// The end of each locale.
    private var ends: [Int] = []

    /// Creates a table of locales in order.
    package init(_ locales: [String]) {
        for locale in locales {
            self.bytes += locale.utf8.map(Self.folded)
            self.ends.append(self.bytes.count)
        }
    }

    /// Returns the variant for a device with the given locale: 0 for the notification's own language, otherwise the
    /// index of the matching locale plus one: an exact match first, then the language alone.
    ///
    /// It runs for every device and allocates nothing.
    package func variantIndex(forLocale locale: Span<UInt8>) -> Int {
        guard !self.ends.isEmpty, let index = self.index(of: locale) else { return 0 }
        return index + 1
    }

    /// Returns the index of the longest entry that equals `locale` or one of its prefixes by subtags (RFC 4647 §3.4,
    /// lookup): `zh-Hant-TW`, `zh-Hant`, `zh`. Nil when there is none.
    private func index(of locale: Span<UInt8>) -> Int? {
        var count = locale.count
        while count > 0 {
            if let found = self.exactIndex(of: locale, count: count) { return found }
            repeat { count -= 1 } while count > 0 && Self.folded(locale[count]) != 0x2d
        }
        return nil
    }

    private func exactIndex(of locale: Span<UInt8>, count: Int) -> Int? {
        var start = 0
        for index in self.ends.indices {
            let end = self.ends[index]
            if end - start == count, self.matches(locale, from: start, count: count) { return index }
            start = end
        }
        return nil
    }

    private func matches(_ locale: Span<UInt8>, from start: Int, count: Int) -> Bool {
        for offset in 0..<count where Self.folded(locale[offset]) != self.bytes[start + offset] { return false }
        return true
    }

    @inline(__always)
    private static func folded(_ byte: UInt8) -> UInt8 {
        switch byte {
        case 0x41...0x5a: byte | 0x20
        case 0x5f: 0x2d
        default: byte
        }
    }
}
