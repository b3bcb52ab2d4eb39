/// A command that the model executed, with its reply.
package struct TapeEntry: Sendable {
    /// The command's name and arguments.
    package let command: [Bytes]
    /// The server's clock, in µs since 1970.
    package let now: Int64
    /// The model's reply.
    package let reply: ModelReply

    /// The command as a real server can repeat it: a read that waited is made when it was answered.
    var repeated: [Bytes] {
        guard ["XREAD", "XREADGROUP"].contains(upper(self.command[0])),
            let place = self.command.firstIndex(where: { upper($0) == "BLOCK" })
        else { return self.command }
        return Array(self.command[..<place] + self.command[(place + 2)...])
    }

    /// The function that the command calls; nil for another command.
    package var function: String? {
        guard ["FCALL", "FCALL_RO"].contains(upper(self.command[0])), self.command.count > 1 else { return nil }
        return String(decoding: self.command[1], as: UTF8.self)
    }
}
