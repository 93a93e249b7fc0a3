//! The secret of a webhook, read from its file at each use and never shown, and the signature made with it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::io::AsyncReadExt;

/// No secret is longer; a longer file is the wrong one.
const LONGEST: u64 = 4_096;

/// What a secret begins with whose rest is the key in base64.
const ENCODED: &str = "whsec_";

/// The key of a webhook. Its `Debug` shows nothing of it.
pub struct Secret(Vec<u8>);

impl Secret {
    /// Reads it from `file`, without the white space around it. After `whsec_` stands the key in base64; anything else is
    /// the key as it is.
    ///
    /// # Errors
    /// One sentence that names the file, when it cannot be read or holds no secret.
    pub async fn read(file: &str) -> Result<Self, String> {
        let refused = |why: String| format!("its secret file {file} {why}");
        let mut text = String::new();
        let opened = tokio::fs::File::open(file).await;
        let opened = opened.map_err(|error| refused(format!("cannot be opened ({error})")))?;
        let read = opened.take(LONGEST + 1).read_to_string(&mut text).await;
        let length = read.map_err(|error| refused(format!("cannot be read ({error})")))?;
        if u64::try_from(length).is_ok_and(|length| length > LONGEST) {
            return Err(refused("is too long for one that holds a secret".to_owned()));
        }
        Self::parse(&text).map_err(|why| refused(why.to_owned()))
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let key = match text.strip_prefix(ENCODED) {
            Some(rest) => STANDARD.decode(rest).map_err(|_| "holds no base64 behind whsec_")?,
            None => text.as_bytes().to_vec(),
        };
        if key.is_empty() { Err("is empty") } else { Ok(Self(key)) }
    }

    /// Signs a message, and returns the value of its header `Webhook-Signature`. `seconds` is the time of the attempt,
    /// since 1970.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        // An HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // Made with `printf '%s' ID.SECONDS.BODY | openssl dgst -sha256 -hmac KEY -binary | base64`.
        let secret = Secret::parse("a key\n").unwrap();
        let signature = secret.sign("msg_1", 1_614_265_330, b"{\"test\": 2432232314}");
        assert_eq!(signature, "v1,gDU+0y4K1a+9NL0QRtxR2iOSxGx222iDw6YOZnEXkDY=");
    }

    #[test]
    fn a_secret_may_be_encoded_and_is_not_shown() {
        let (plain, encoded) = (Secret::parse(" a key ").unwrap(), Secret::parse("whsec_YSBrZXk=\n").unwrap());
        assert_eq!(plain.sign("i", 1, b"b"), encoded.sign("i", 1, b"b"));
        assert!(!format!("{plain:?}").contains("key"));
    }

    #[tokio::test]
    async fn a_file_without_a_secret_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        for content in [&b""[..], b" \n", b"whsec_", b"whsec_!", b"\xff", &[b'a'; 5_000]] {
            std::fs::write(&file, content).unwrap();
            let why = Secret::read(file.to_str().unwrap()).await.unwrap_err();
            assert!(why.starts_with("its secret file /"), "{why}");
        }
        assert!(Secret::read("/no/such/file").await.unwrap_err().contains("/no/such/file"));
    }
}
