//! Opening files that strangers may have made.
//!
//! A pipe would be waited for, a device does what it likes, and a link leads to a file that nobody named. So only regular files are
//! opened, and the files of a folder only if they are in it.

use std::fs::{self, File, FileType, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result, value_error};

/// Opens a regular file that the user names, for reading. Links are followed.
///
/// # Errors
/// `Value` if it is no regular file, `Io` when it cannot be opened.
pub fn open(path: &Path) -> Result<File> {
    opened(path, OpenOptions::new().read(true), OFlags::NONBLOCK)
}

/// Opens or creates a file of a folder for reading and writing.
///
/// # Errors
/// `Value` if it is no regular file, or one that has other names, in the folder or elsewhere; `Io` when it cannot be opened.
pub fn open_in_folder(path: &Path, create: bool) -> Result<File> {
    check_own(path)?;
    let file =
        opened(path, OpenOptions::new().read(true).write(true).create(create), OFlags::NONBLOCK | OFlags::NOFOLLOW)?;
    let names = file.metadata().map_err(Error::io(context(path)))?.nlink();
    if names > 1 {
        return value_error!(
            "{} has {names} names (hard links), and its other names would change with it: copy the folder with its contents, and \
             open the copy",
            path.display()
        );
    }
    Ok(file)
}

/// Checks that what a folder has under this name, if it has anything, is a regular file and no link to one.
///
/// # Errors
/// `Value` if it is something else.
pub fn check_own(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => refused(path, found.file_type()),
        _ => Ok(()),
    }
}

/// Makes a new file for reading and writing, in the place of one that an interrupted process left there, or of a link.
///
/// # Errors
/// `Io` when it cannot be made.
pub fn create(path: &Path) -> std::io::Result<File> {
    let _ = fs::remove_file(path); // a link itself, not what it leads to
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

fn opened(path: &Path, options: &mut OpenOptions, flags: OFlags) -> Result<File> {
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(Error::io(context(path)))?;
    let found = file.metadata().map_err(Error::io(context(path)))?;
    if found.is_file() { Ok(file) } else { refused(path, found.file_type()) }
}

fn context(path: &Path) -> String {
    format!("cannot open {}", path.display())
}

fn refused<T>(path: &Path, kind: FileType) -> Result<T> {
    let what = match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    value_error!("{} is {what}: a regular file is needed here", path.display())
}
