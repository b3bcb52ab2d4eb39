/// The limits of all input, by name. Each is enforced at the input and tested with one more.
public enum Limits {
    /// The maximum number of characters of an app's name.
    public static let appIDBytesMax = 32
    /// The maximum number of characters of a publisher's name.
    public static let publisherNameBytesMax = 64
    /// The maximum number of characters of a device's id.
    public static let deviceIDBytesMax = 128
    /// The maximum number of characters of a user's id.
    public static let userIDBytesMax = 128
    /// The maximum number of characters of a send's id.
    public static let sendIDBytesMax = 64
    /// The maximum number of characters of a topic's name.
    public static let topicNameBytesMax = 900
    /// The maximum number of characters of a topic's name with "/topics/" before it, as some clients write it.
    public static let topicTextBytesMax = topicNameBytesMax + 8

    /// The maximum bytes of a packed send command.
    public static let sendCommandBytesMax = 256 * 1_024
    /// The maximum bytes of a packed outcome batch or receipt: 512 recipients of some 110 bytes, and the providers' texts as far as they fit.
    public static let outcomeBatchBytesMax = 256 * 1_024
    /// Bytes of the original that a dead letter keeps: all of the largest message.
    public static let deadLetterPayloadBytesMax = sendCommandBytesMax
    /// The maximum bytes of a packed dead letter: the original, and what is said about it.
    public static let deadLetterBytesMax = deadLetterPayloadBytesMax + 16 * 1_024
    /// The maximum bytes of any other packed message between services.
    public static let messageBytesMax = 64 * 1_024
    /// The maximum number of fields of a message, including nested messages: a thousand addresses with all of theirs, twice.
    public static let messageFieldsMax = 16_384
    /// The maximum number of unknown fields in one message: one in each of a thousand addresses, and some.
    public static let messageUnknownFieldsMax = 1_024
    /// The maximum nesting of messages; the schema has no more.
    public static let messageDepthMax = 4
    /// The maximum memory that decoding or encoding one message may take.
    public static let messageArenaBytesMax = 16 * sendCommandBytesMax + 65_536
    /// The latest time that a message may name: the end of the year 9999.
    public static let timeMax = UnixMilliseconds(253_402_300_799_999)
    /// The maximum number of days that a command may be kept until it may be sent: a year.
    public static let notBeforeDays: Int64 = 366
    /// The same in milliseconds.
    public static let notBeforeMilliseconds = notBeforeDays * 86_400_000
    /// The maximum bytes of a packed device record.
    public static let deviceRecordBytesMax = 8 * 1_024
    /// The maximum number of addresses, devices or users in one command.
    public static let recipientsMax = 1_000
    /// The maximum bytes of a text shown to a person: title, body and the like.
    public static let textBytesMax = 4_096
    /// The maximum bytes of a short name: category, thread, sound, tag.
    public static let nameBytesMax = 256
    /// The maximum bytes of a URL: a picture, a link.
    public static let urlBytesMax = 2_048
    /// The maximum bytes of a language tag (BCP 47; RFC 5646 §4.4.1 finds 35 enough).
    public static let localeBytesMax = 64
    /// The maximum bytes of the name of a time zone (IANA).
    public static let timeZoneBytesMax = 64
    /// The maximum bytes of an app's version.
    public static let appVersionBytesMax = 64
    /// The maximum bytes of a country (ISO 3166-1 alpha-2).
    public static let countryBytesMax = 2
    /// The maximum number of arguments of a localised string.
    public static let localizationArgumentsMax = 32
    /// The maximum number of entries of the data map.
    public static let dataEntriesMax = 64
    /// The maximum bytes of a key of the data map.
    public static let dataKeyBytesMax = 256
    /// The maximum bytes of a value of the data map.
    public static let dataValueBytesMax = 4_096
    /// The maximum number of locale variants of one notification.
    public static let localeVariantsMax = 64
    /// The maximum bytes of a raw JSON override.
    public static let jsonOverrideBytesMax = 8 * 1_024
    /// The maximum nesting of a JSON text from outside.
    public static let jsonDepthMax = 16
    /// The maximum of values in a JSON text from outside, each of which takes memory beyond its text.
    public static let jsonValuesMax = 131_072
    /// The maximum bytes of a topic condition or an audience expression.
    public static let expressionBytesMax = 4_096
    /// The maximum bytes of an idempotency key.
    public static let idempotencyKeyBytesMax = 128
    /// The maximum bytes of the name of a reply stream.
    public static let replyToBytesMax = 128
    /// The maximum bytes of a traceparent (W3C: 55, longer ones come with later versions).
    public static let traceparentBytesMax = 128
    /// The maximum bytes of a tracestate (W3C).
    public static let tracestateBytesMax = 512
    /// The maximum number of topics of one device.
    public static let topicsPerDeviceMax = 100
    /// The maximum number of tags of one device.
    public static let tagsPerDeviceMax = 64
    /// The maximum bytes of one tag.
    public static let tagBytesMax = 64
    /// The maximum bytes of a token of any provider.
    public static let tokenBytesMax = 4_096
    /// The maximum bytes of a token that is kept raw: opaque, of variable length; tokens of 80 bytes have been seen.
    public static let apnsTokenBytesMax = 200
    /// The maximum number of secondary addresses of one device.
    public static let secondaryAddressesMax = 16
    /// The largest badge: an int32 at some providers.
    public static let badgeMax: UInt32 = 2_147_483_647
    /// The bytes of a Web Push device's public key: an uncompressed P-256 point (RFC 8291 §3.1).
    public static let webpushP256DHBytes = 65
    /// The bytes of a Web Push device's authentication secret (RFC 8291 §3.2).
    public static let webpushAuthBytes = 16
    /// The maximum number of origins (scheme, host and port) to which one route has connections at a time, on each event loop.
    package static let originsMax = 1_000
    /// The maximum number of those whose hosts anybody may name by registering an address there.
    package static let unknownOriginsMax = 900
    /// The maximum bytes of a provider's own text kept in an outcome.
    public static let providerTextBytesMax = 200
    /// The maximum bytes of a provider's own id of a notification, which may be an address.
    public static let providerIDBytesMax = 512

    /// The maximum number of different counts in one outcome batch or receipt: by provider, outcome and reason.
    public static let outcomeCountsMax = 512
    /// The maximum number of renderings, and of warnings, in the receipt of a dry run: each language on every route of an app, twice over.
    public static let dryRunPartsMax = 512
    /// The maximum bytes of one rendered message, and the maximum of one of its headers, in the receipt of a dry run.
    public static let dryRunPayloadBytesMax = 16 * 1_024
    /// The maximum number of headers of one rendered message in the receipt of a dry run.
    public static let dryRunHeadersMax = 32
    /// The maximum bytes of all rendered messages with their headers in the receipt of a dry run; further ones have only their sizes.
    public static let dryRunPayloadsBytesMax = 64 * 1_024
    /// The number of ordinals of one chunk of a store's partition.
    public static let chunkOrdinals = 4_096
    /// The maximum number of recipients of one work unit; also the bits of its journal.
    public static let unitRecipientsMax = 512
    /// The maximum number of recipients of a send that is sent directly from intake, without a plan.
    public static let directRecipientsMax = 32
}
