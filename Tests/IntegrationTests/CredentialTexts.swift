import ApusCore
import ApusTLS

/// The contents of files that a check of a configuration signs with.
enum CredentialTexts {
    /// A signing key as Apple gives one.
    static var signingKey: String {
        get throws { try PrivateKey.generate(.p256).pem }
    }

    /// A key that browsers subscribe with, and its public half in base64url.
    static var subscriptionKey: (pem: String, publicKey: String) {
        get throws {
            let key = try PrivateKey.generate(.p256)
            return (key.pem, Base64URL.encode(key.publicKey.uncompressedPoint ?? []))
        }
    }

    /// An account as Firebase gives one.
    static var serviceAccount: String {
        get throws {
            let account: JSONValue = [
                "type": "service_account", "project_id": "shop-12345", "private_key_id": "1",
                "client_email": "apus@shop-12345.iam.gserviceaccount.com",
                "private_key": .string(try PrivateKey.generate(.rsa2048).pem),
                "token_uri": "https://oauth2.googleapis.com/token",
            ]
            return account.text
        }
    }
}
