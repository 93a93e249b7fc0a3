//! The secret of a runner: read from its file at each use, never kept, never shown.

use std::fmt;

use tokio::io::AsyncReadExt;

use crate::runner_client::NoAnswer;

/// No secret is longer; a longer file is the wrong one.
const LONGEST: u64 = 4_096;

/// A bearer token. Its `Debug` shows nothing of it.
pub(super) struct Secret(String);

impl Secret {
    /// Reads it from `file`, without the white space around it.
    ///
    /// # Errors
    /// [`NoAnswer::Unauthorised`] with a sentence that names the file, when it cannot be read or holds no token.
    pub(super) async fn read(file: &str) -> Result<Self, NoAnswer> {
        let refused = |why: String| NoAnswer::Unauthorised(format!("no secret for the runner: {file} {why}"));
        let mut text = String::new();
        let opened =
            tokio::fs::File::open(file).await.map_err(|error| refused(format!("cannot be opened ({error})")))?;
        opened
            .take(LONGEST + 1)
            .read_to_string(&mut text)
            .await
            .map_err(|error| refused(format!("cannot be read ({error})")))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(refused("is empty".to_owned()));
        }
        if text.len() > 4_096 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused("holds no token: one line of printable ASCII is expected".to_owned()));
        }
        Ok(Self(token.to_owned()))
    }

    /// Returns the token, for the one header that it belongs in.
    pub(super) fn expose(&self) -> &str {
        &self.0
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

    async fn read(content: &[u8]) -> Result<Secret, NoAnswer> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, content).unwrap();
        Secret::read(file.to_str().unwrap()).await
    }

    #[tokio::test]
    async fn a_token_is_read_without_white_space_and_not_shown() {
        let secret = read(b"  t0ken\r\n").await.unwrap();
        assert_eq!(secret.expose(), "t0ken");
        assert!(!format!("{secret:?}").contains("t0ken"));
    }

    #[tokio::test]
    async fn a_file_without_a_token_is_named() {
        for content in [&b""[..], b" \n", b"two words", b"two\nlines", b"\xff", &[b'a'; 5_000]] {
            let why = read(content).await.unwrap_err().to_string();
            assert!(why.starts_with("no secret for the runner: /"), "{why}");
        }
        assert!(matches!(Secret::read("/no/such/file").await, Err(NoAnswer::Unauthorised(_))));
    }
}
