//! Files that hold one secret, for this machine's own use: only their owner may read them.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a secret of 256 random bits, unless there is one.
///
/// # Errors
/// When the file cannot be read or written, or the system gives no random bits.
pub(crate) fn ensure(path: &Path) -> io::Result<()> {
    if read(path)?.is_some() {
        return Ok(());
    }
    let mut bits = [0_u8; 32];
    getrandom::fill(&mut bits).map_err(|error| io::Error::other(error.to_string()))?;
    let text: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
    write(path, &text)
}

/// Reads a secret; none when the file is not there, or holds nothing.
///
/// # Errors
/// When the file is there and cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|secret| !secret.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a secret: beside the file first, with mode 0600 from its first byte on, then in its place.
///
/// # Errors
/// When that fails; what was there before is then still there.
pub(crate) fn write(path: &Path, secret: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    // What an earlier process of the same number left half-written.
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{secret}")?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_its_owners_alone_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/token");
        assert_eq!(read(&path).unwrap(), None);
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::write(&path, "\n").unwrap();
        assert_eq!(read(&path).unwrap(), None);
    }

    #[test]
    fn a_secret_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, " \n").unwrap();
        ensure(&path).unwrap();
        let made = read(&path).unwrap().unwrap();
        assert_eq!(made.len(), 64);
        ensure(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Some(made));
    }
}
