//! Small files that are there wholly or not at all.
//!
//! In:     bytes, a path, the bits of who may read.
//! Out:    the file; after a crash it is the one before or this one.
//! Fails:  with the system's error; the file before stays.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file under another name, syncs it, and gives it its own. Nobody else can read it meanwhile.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let draft = path.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // The new name too outlasts a power cut.
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// The text of a file; none where there is no file.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_one_before_or_the_new_one() {
        let folder = std::env::temp_dir().join(format!("assay-kept-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("small.json");
        assert_eq!(read(&path).unwrap(), None);
        write_whole(&path, b"one", 0o600).unwrap();
        // What a crash left of a file that was never finished.
        fs::write(folder.join("small.new"), "torn").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("one"));
        write_whole(&path, b"two", 0o600).unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(write_whole(&folder.join("nowhere/x"), b"", 0o600).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
