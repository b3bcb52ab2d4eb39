import ApusTLS
import Foundation
import Testing

@Suite struct ExitTests {
    /// Threads of event loops still use OpenSSL when the main thread ends the process.
    @Test func `A process can exit while other threads use OpenSSL`() async {
        for _ in 0..<5 {
            await #expect(processExitsWith: .success) {
                for _ in 0..<4 {
                    Thread.detachNewThread {
                        while true { _ = try? PrivateKey.generate(.p256) }
                    }
                }
                try? await Task.sleep(for: .milliseconds(100))
                exit(0)
            }
        }
    }
}
