/// A notification written out for one provider: once in its own words, and once per other language.
package struct RenderedNotification<Message: Sendable>: Sendable {
    /// The notification's own words first, then one for each of its locale variants, in their order.
    package let variants: [Message]
    private let locales: LocaleTable

    /// - Parameters:
    ///   - base: the notification's own words.
    ///   - others: the other languages, each under its locale.
    package init(base: Message, others: [(locale: String, message: Message)]) {
        self.variants = [base] + others.map(\.message)
        self.locales = LocaleTable(others.map(\.locale))
    }

    /// The notification's own words.
    package var base: Message { self.variants[0] }

    /// Which of ``variants`` a device with that locale gets: the exact locale, else its language, else the base.
    ///
    /// Runs for every device: allocates nothing.
    @inline(__always)
    package func variantIndex(forLocale locale: Span<UInt8>) -> Int {
        self.variants.count == 1 ? 0 : self.locales.index(of: locale).map { $0 + 1 } ?? 0
    }

    /// The message for a device with that locale.
    package subscript(locale locale: String) -> Message {
        self.variants[self.variantIndex(forLocale: Array(locale.utf8).span)]
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

    /// The place of the longest locale that is `locale` or what is left of it when subtags are taken off its end (RFC
    /// 4647 §3.4, lookup): `zh-Hant-TW`, `zh-Hant`, `zh`. Nil when there is none.
    package func index(of locale: Span<UInt8>) -> Int? {
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
