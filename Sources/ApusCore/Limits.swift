/// Every limit on what comes in from outside, by name. Each is enforced where the bytes enter and tested one past it.
public enum Limits {
    /// Characters of an app's name.
    public static let appIDBytesMax = 32
    /// Characters of a device's id.
    public static let deviceIDBytesMax = 128
    /// Characters of a user's id.
    public static let userIDBytesMax = 128
    /// Characters of a send's id.
    public static let sendIDBytesMax = 64
    /// Characters of a topic's name.
    public static let topicNameBytesMax = 900
    /// Characters of a topic's name with "/topics/" before it, as some clients write it.
    public static let topicTextBytesMax = topicNameBytesMax + 8

    /// Bytes of a packed send command.
    public static let sendCommandBytesMax = 256 * 1_024
    /// Bytes of a packed outcome batch or receipt: 512 recipients of some 110 bytes, and the providers' texts.
    public static let outcomeBatchBytesMax = 256 * 1_024
    /// Bytes of the original that a dead letter keeps: all of the largest message.
    public static let deadLetterPayloadBytesMax = sendCommandBytesMax
    /// Bytes of a packed dead letter: the original, and what is said about it.
    public static let deadLetterBytesMax = deadLetterPayloadBytesMax + 16 * 1_024
    /// Bytes of any other packed message between services.
    public static let messageBytesMax = 64 * 1_024
    /// Fields of a message, those of messages within it counted too: a thousand addresses with all of theirs, twice.
    public static let messageFieldsMax = 16_384
    /// Fields that this version does not know, in one message: one in each of a thousand addresses, and some.
    public static let messageUnknownFieldsMax = 1_024
    /// Levels of messages within messages; the schema has no more.
    public static let messageDepthMax = 4
    /// Memory that decoding or encoding one message may take on the way.
    public static let messageArenaBytesMax = 16 * sendCommandBytesMax + 65_536
    /// The latest time a message may name: the end of the year 9999.
    public static let timeMax = UnixMilliseconds(253_402_300_799_999)
    /// Bytes of a packed device record.
    public static let deviceRecordBytesMax = 8 * 1_024
    /// Addresses, devices or users in one command.
    public static let recipientsMax = 1_000
    /// Bytes of a text shown to a person: title, body and the like.
    public static let textBytesMax = 4_096
    /// Bytes of a short name: category, thread, sound, tag.
    public static let nameBytesMax = 256
    /// Bytes of a URL: a picture, what opens on a click.
    public static let urlBytesMax = 2_048
    /// Bytes of a language tag (BCP 47; RFC 5646 §4.4.1 finds 35 enough).
    public static let localeBytesMax = 64
    /// Bytes of the name of a time zone (IANA).
    public static let timeZoneBytesMax = 64
    /// Bytes of an app's version.
    public static let appVersionBytesMax = 64
    /// Bytes of a country (ISO 3166-1 alpha-2).
    public static let countryBytesMax = 2
    /// Arguments of a localised string.
    public static let localizationArgumentsMax = 32
    /// Entries of the data map.
    public static let dataEntriesMax = 64
    /// Bytes of a key of the data map.
    public static let dataKeyBytesMax = 256
    /// Bytes of a value of the data map.
    public static let dataValueBytesMax = 4_096
    /// Locale variants of one notification.
    public static let localeVariantsMax = 64
    /// Bytes of a raw JSON override.
    public static let jsonOverrideBytesMax = 8 * 1_024
    /// Nesting of a JSON text from outside.
    public static let jsonDepthMax = 16
    /// Bytes of a topic condition or an audience expression.
    public static let expressionBytesMax = 4_096
    /// Bytes of an idempotency key.
    public static let idempotencyKeyBytesMax = 128
    /// Bytes of the name of a reply stream.
    public static let replyToBytesMax = 128
    /// Bytes of a traceparent (W3C: 55, longer ones come with later versions).
    public static let traceparentBytesMax = 128
    /// Bytes of a tracestate (W3C).
    public static let tracestateBytesMax = 512
    /// Topics of one device.
    public static let topicsPerDeviceMax = 100
    /// Tags of one device.
    public static let tagsPerDeviceMax = 64
    /// Bytes of one tag.
    public static let tagBytesMax = 64
    /// Bytes of a token of any provider.
    public static let tokenBytesMax = 4_096
    /// Bytes of a token that is kept raw: opaque, of variable length; tokens of 80 bytes have been seen.
    public static let apnsTokenBytesMax = 200
    /// Secondary addresses of one device.
    public static let secondaryAddressesMax = 16
    /// What badge increments count to: an int32 at some providers.
    public static let badgeMax: UInt32 = 2_147_483_647
    /// Bytes of a Web Push device's public key: an uncompressed P-256 point (RFC 8291 §3.1).
    public static let webpushP256DHBytes = 65
    /// Bytes of a Web Push device's authentication secret (RFC 8291 §3.2).
    public static let webpushAuthBytes = 16
    /// Bytes of a provider's own text kept in an outcome.
    public static let providerTextBytesMax = 200

    /// Different counts in one outcome batch or receipt: provider, outcome and reason.
    public static let outcomeCountsMax = 512
    /// Renderings, and pieces of advice, in the receipt of a dry run: each language on every route of an app, twice over.
    public static let dryRunPartsMax = 512
    /// Ordinals of one chunk of a store's partition.
    public static let chunkOrdinals = 4_096
    /// Recipients of one work unit; also the bits of its journal.
    public static let unitRecipientsMax = 512
    /// Recipients up to which a send goes straight from intake, without a plan.
    public static let directRecipientsMax = 32
}
