//! The file itself: lines are added, a file that is full is put aside, and trouble with the disk is told once. Blocks.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::config;

/// A file that lines are added to.
#[derive(Debug)]
pub(super) struct AuditFile {
    settings: config::Audit,
    /// Opened when there is something to write.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: usize,
    /// What was written last is not a whole line: the disk was full, or a process ended in the middle of it.
    torn: bool,
}

// === impl AuditFile ===

impl AuditFile {
    pub(super) fn new(settings: config::Audit) -> Self {
        Self { settings, open: None }
    }

    /// The file may have been moved away: it is opened anew before the next line.
    pub(super) fn reopen(&mut self) {
        self.open = None;
    }

    /// Adds lines, each with its line end. Says how many were written before it failed, if it did.
    pub(super) fn add(&mut self, lines: &[Vec<u8>]) -> (usize, io::Result<()>) {
        // Neighbours are written at once, as far as they fit.
        let mut written = 0;
        while written < lines.len() {
            let result = self.add_some(&lines[written..]);
            match result {
                Ok(count) => written += count,
                Err(error) => {
                    // What is wrong with it may be right with another.
                    self.open = None;
                    return (written, Err(error));
                }
            }
        }
        (written, Ok(()))
    }

    fn add_some(&mut self, lines: &[Vec<u8>]) -> io::Result<usize> {
        let max_bytes = self.settings.max_bytes;
        let first = lines.first().map_or(0, Vec::len);
        if let Some(open) = self.open()
            && open.size > 0
            && open.size + first > max_bytes
        {
            self.rotate()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::at(&self.settings.file)?),
        };
        let mut text = Vec::new();
        if open.torn {
            text.push(b'\n');
        }
        let mut count = 0;
        for line in lines {
            // One that is larger than a file is to be has a file of its own.
            if count > 0 && open.size + text.len() + line.len() > max_bytes {
                break;
            }
            text.extend_from_slice(line);
            count += 1;
        }
        // Whatever of it is there if this fails.
        open.torn = true;
        open.file.write_all(&text)?;
        open.torn = false;
        open.size += text.len();
        Ok(count)
    }

    fn open(&mut self) -> Option<&Open> {
        if self.open.is_none() {
            // If it fails it fails again when it matters.
            self.open = Open::at(&self.settings.file).ok();
        }
        self.open.as_ref()
    }

    /// Puts the file aside as `.1`, that as `.2`, and so on; the oldest goes.
    fn rotate(&mut self) -> io::Result<()> {
        self.open = None;
        if !fs::exists(&self.settings.file)? {
            // Somebody put it aside already. A new one is begun.
            return Ok(());
        }
        let keep = self.settings.keep;
        for number in (1..keep).rev() {
            let moved = fs::rename(self.numbered(number), self.numbered(number + 1));
            ignore_missing(moved)?;
        }
        ignore_missing(fs::rename(&self.settings.file, self.numbered(1)))
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.settings.file);
        name.push(format!(".{number}"));
        name.into()
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

// === impl Open ===

impl Open {
    fn at(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.read(true).append(true).create(true).open(path)?;
        let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let mut last = [b'\n'];
        if size > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self { file, size, torn: last != [b'\n'] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| format!("{text}\n").into_bytes()).collect()
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_full_file_is_put_aside_between_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("audit.log");
        let settings = config::Audit { file: file.clone(), max_bytes: 10, keep: 2 };
        let mut audit = AuditFile::new(settings.clone());
        assert_eq!(audit.add(&lines(&["one", "two", "three", "four", "five"])).0, 5);
        assert_eq!(read(&file), "four\nfive\n");
        assert_eq!(read(&audit.numbered(1)), "three\n");
        assert_eq!(read(&audit.numbered(2)), "one\ntwo\n");
        // Larger than a file may be, and still whole.
        assert_eq!(audit.add(&lines(&["a very long line", "x"])).0, 2);
        assert_eq!(read(&file), "x\n");
        assert_eq!(read(&audit.numbered(1)), "a very long line\n");
        assert_eq!(read(&audit.numbered(2)), "four\nfive\n");
        assert!(!audit.numbered(3).exists());
        // The next process goes on where this one stopped.
        let mut next = AuditFile::new(settings);
        assert_eq!(next.add(&lines(&["y"])).0, 1);
        assert_eq!(read(&file), "x\ny\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_spoil_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("audit.log");
        fs::write(&file, "{\"half\":").unwrap();
        let settings = config::Audit { file: file.clone(), max_bytes: 1000, keep: 1 };
        let mut audit = AuditFile::new(settings);
        assert_eq!(audit.add(&lines(&["whole", "next"])).0, 2);
        assert_eq!(read(&file), "{\"half\":\nwhole\nnext\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_left_alone_once_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let (file, moved) = (dir.path().join("audit.log"), dir.path().join("moved"));
        let settings = config::Audit { file: file.clone(), max_bytes: 1000, keep: 1 };
        let mut audit = AuditFile::new(settings);
        assert_eq!(audit.add(&lines(&["one"])).0, 1);
        fs::rename(&file, &moved).unwrap();
        assert_eq!(audit.add(&lines(&["two"])).0, 1);
        audit.reopen();
        assert_eq!(audit.add(&lines(&["three"])).0, 1);
        assert_eq!((read(&moved).as_str(), read(&file).as_str()), ("one\ntwo\n", "three\n"));
    }

    #[test]
    fn a_file_that_was_moved_away_when_it_is_full_costs_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let (file, moved) = (dir.path().join("audit.log"), dir.path().join("moved"));
        let settings = config::Audit { file: file.clone(), max_bytes: 10, keep: 2 };
        let mut audit = AuditFile::new(settings);
        assert_eq!(audit.add(&lines(&["before", "one"])).0, 2);
        fs::rename(&file, &moved).unwrap();
        let (written, result) = audit.add(&lines(&["second", "two", "six"]));
        assert_eq!((written, result.is_ok()), (3, true));
        assert_eq!((read(&moved).as_str(), read(&file).as_str()), ("one\n", "two\nsix\n"));
        // What was put aside before is still there.
        assert_eq!(read(&audit.numbered(2)), "before\n");
        assert_eq!(read(&audit.numbered(1)), "second\n");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_works_when_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("missing");
        let file = folder.join("audit.log");
        let settings = config::Audit { file: file.clone(), max_bytes: 1000, keep: 1 };
        let mut audit = AuditFile::new(settings);
        let (written, result) = audit.add(&lines(&["one", "two"]));
        assert_eq!((written, result.is_err()), (0, true));
        fs::create_dir(&folder).unwrap();
        assert_eq!(audit.add(&lines(&["three"])).0, 1);
        assert_eq!(read(&file), "three\n");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error_and_nothing_worse() {
        let full = PathBuf::from("/dev/full");
        let mut audit = AuditFile::new(config::Audit { file: full, max_bytes: 1000, keep: 1 });
        let (written, result) = audit.add(&lines(&["one"]));
        assert_eq!((written, result.unwrap_err().kind()), (0, io::ErrorKind::StorageFull));
    }
}
