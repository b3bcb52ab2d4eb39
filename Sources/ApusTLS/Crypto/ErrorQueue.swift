internal import COpenSSL

/// OpenSSL's error queue of the calling thread.
///
/// The queue is per thread: clear, call, drain must stand in one function, without an `await` between.
enum ErrorQueue {
    /// Forgets older errors, so that what the next call adds is its own.
    static func clear() { ERR_clear_error() }

    /// Takes all errors: the text of the first, which is the cause, else `fallback`.
    static func drain(_ fallback: String) -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0, let text = unsafe ERR_reason_error_string(code) else { return fallback }
        return unsafe fallback + ": " + String(cString: text)
    }
}
