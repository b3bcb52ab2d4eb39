/// The last part of an FCM message's name.
enum MessageName {
    /// "0:" and 16 digits.
    static func text(number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return "0:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}
