/// A notification written out for one provider: once in its own words, and once per other language.
package struct RenderedNotification<Message: Sendable>: Sendable {
    /// The notification's own words first, then one for each of its locale variants, in their order.
    package let variants: [Message]
    /// Chooses among them.
    package let locales: LocaleTable

    /// - Parameters:
    ///   - base: the notification's own words.
    ///   - others: the other languages, each under its locale.
    package init(base: Message, others: [(locale: String, message: Message)]) {
        self.variants = [base] + others.map(\.message)
        self.locales = LocaleTable(others.map(\.locale))
    }

    private init(variants: [Message], locales: LocaleTable) {
        self.variants = variants
        self.locales = locales
    }

    /// The notification's own words.
    package var base: Message { self.variants[0] }

    /// Which of ``variants`` a device with that locale gets; see ``LocaleTable/variantIndex(forLocale:)``.
    package func variantIndex(forLocale locale: Span<UInt8>) -> Int { self.locales.variantIndex(forLocale: locale) }

    /// The message for a device with that locale.
    package subscript(locale locale: String) -> Message {
        self.variants[self.variantIndex(forLocale: Array(locale.utf8).span)]
    }

    /// Each language turned into something else, a request's template for one, under the same locales.
    package func map<Other: Sendable, E: Error>(
        _ transform: (Message) throws(E) -> Other
    ) throws(E) -> RenderedNotification<Other> {
        RenderedNotification<Other>(variants: try self.variants.map(transform), locales: self.locales)
    }
}

/// Locales in one run of bytes, to be searched without allocating.
///
/// Compared without regard to case, `_` as `-`: systems say `pt_BR` where BCP 47 says `pt-BR`.
package struct LocaleTable: Sendable {
    private var bytes: [UInt8] = []
    /// Where each locale ends.
    private var ends: [Int] = []

    /// Locales in order.
    package init(_ locales: [String]) {
        for locale in locales {
            self.bytes += locale.utf8.map(Self.folded)
            self.ends.append(self.bytes.count)
        }
    }

    /// Which variant a device with that locale gets: 0 for the notification's own words, else one more than the place of its
    /// locale: the exact one, else its language's.
    ///
    /// Runs for every device: allocates nothing.
    package func variantIndex(forLocale locale: Span<UInt8>) -> Int {
        guard !self.ends.isEmpty, let index = self.index(of: locale) else { return 0 }
        return index + 1
    }

    /// The place of the longest locale that is `locale` or what is left of it when subtags are taken off its end (RFC
    /// 4647 §3.4, lookup): `zh-Hant-TW`, `zh-Hant`, `zh`. Nil when there is none.
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
