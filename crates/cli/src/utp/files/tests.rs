use std::sync::atomic::AtomicU64;

use super::*;

fn entry(path: &str, bytes: u64) -> Entry {
    Entry { path: path.to_owned(), bytes: Some(bytes) }
}

#[test]
fn a_path_stays_inside_the_folder() {
    let root = tempfile::tempdir().expect("a folder");
    let outside = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).expect("a link");
    for wrong in ["", "/etc/passwd", "../x", "a/../../x", "a/..", ".", "a/./../..", "link/x", "link/y/z", "a\0b", "a/"] {
        assert!(place(root.path(), wrong).is_err(), "{wrong:?}");
    }
    for right in ["x", "a/b/c", "...", "..x", "a b", "a\\b", "a\nb", "..\\x"] {
        assert!(place(root.path(), right).is_ok_and(|place| place.starts_with(root.path())), "{right:?}");
    }
}

/// The folder that files go to is taken away while `recv` listens.
#[test]
fn a_folder_that_is_gone_is_named() {
    let error = place(Path::new("/no/such"), "f").map(drop).expect_err("no folder");
    assert!(format!("{error:#}").contains("/no/such"), "{error:#}");
}

/// `.x.lowtide-part` and then `x`: the second would take the first for its own beginning.
#[test]
fn what_is_called_like_an_unfinished_file_is_neither_sent_nor_taken() {
    let root = tempfile::tempdir().expect("a folder");
    for name in ["x", ".x.lowtide-part", ".hidden", "lowtide-part"] {
        std::fs::write(root.path().join(name), "mine").expect("written");
    }
    let offered = offer(root.path(), "").expect("a folder");
    assert_eq!((offered.files.len(), &offered.left_out), (3, &vec![root.path().canonicalize().expect("there").join(".x.lowtide-part")]));
    for wrong in [".y.lowtide-part", "a/.y.lowtide-part"] {
        assert!(place(root.path(), wrong).is_err_and(|e| e.to_string().contains("unfinished")), "{wrong}");
    }
    assert!(offer(&root.path().join(".x.lowtide-part"), "").is_err_and(|e| e.to_string().contains("unfinished")));
}

#[test]
fn nothing_is_overwritten_unasked() {
    let root = tempfile::tempdir().expect("a folder");
    let place = root.path().join("f");
    std::fs::write(&place, "mine").expect("written");
    assert!(Part::open(root.path(), &entry("f", 3), false).is_err_and(|e| e.to_string().contains("--overwrite")));
    std::fs::remove_file(&place).expect("removed");
    // Taken while it arrived.
    let mut part = Part::open(root.path(), &entry("f", 3), false).expect("opened");
    part.write(b"new").expect("written");
    std::fs::write(&place, "mine").expect("written");
    let whole = part.have();
    assert!(part.finish(&whole).is_err());
    assert_eq!(std::fs::read(&place).expect("read"), b"mine");
    let part = Part::open(root.path(), &entry("f", 3), true).expect("opened");
    assert_eq!(part.have(), whole, "what had arrived is kept");
    part.finish(&whole).expect("replaced");
    assert_eq!(std::fs::read(&place).expect("read"), b"new");
}

#[test]
fn a_part_is_continued_if_it_is_the_beginning() {
    let root = tempfile::tempdir().expect("a folder");
    let source = root.path().join("source");
    std::fs::write(&source, b"0123456789").expect("written");
    let copy = |end: usize, wanted: &[u8]| {
        let mut part = Part::open(root.path(), &entry("f", 10), false).expect("opened");
        let mut source = Source::open(&entry("f", 10), Some(&source), &part.have(), &AtomicU64::new(0)).expect("opened");
        part.begin(source.bytes).expect("there");
        let mut bytes = [0; 4];
        while source.bytes < end as u64 {
            let n = source.read(&mut bytes).expect("read");
            part.write(&bytes[..n]).expect("written");
        }
        assert_eq!(std::fs::read(&part.part).expect("read"), wanted);
        (part, source)
    };
    drop(copy(4, b"0123"));
    assert!(Part::open(root.path(), &entry("f", 10), false).is_ok());
    let (part, other) = copy(10, b"0123456789");
    assert_eq!(other.resumed_at, 4);
    part.finish(&other.whole()).expect("equal");
    // The part is of another file.
    std::fs::remove_file(root.path().join("f")).expect("removed");
    std::fs::write(root.path().join(".f.lowtide-part"), b"012X").expect("written");
    assert_eq!(copy(10, b"0123456789").1.resumed_at, 0);
}

#[test]
fn a_file_that_changes_is_sent_as_it_was_offered_or_not_at_all() {
    let root = tempfile::tempdir().expect("a folder");
    let path = root.path().join("source");
    std::fs::write(&path, b"0123456789").expect("written");
    let none = have(root.path(), &entry("f", 10), false).expect("nothing is there");
    let read = |offered| {
        let mut source = Source::open(&entry("f", offered), Some(&path), &none, &AtomicU64::new(0))?;
        let mut bytes = [0; 64];
        let n = source.read(&mut bytes)?;
        anyhow::Ok((bytes[..n].to_vec(), source.read(&mut bytes)?))
    };
    assert_eq!(read(4).expect("it grew"), (b"0123".to_vec(), 0));
    assert_eq!(read(10).expect("as it was"), (b"0123456789".to_vec(), 0));
    assert_eq!(read(0).expect("as those of /proc"), (b"0123456789".to_vec(), 0));
    assert!(read(11).is_err_and(|e| e.to_string().contains("f: had 11 bytes")));
}

/// A transfer that never begins leaves nothing behind.
#[test]
fn asking_what_is_there_creates_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let empty = have(root.path(), &entry("deep/er/f", 3), false).expect("nothing is in the way");
    assert_eq!((empty.bytes, &empty.sha256[..8]), (0, "e3b0c442"));
    assert_eq!(std::fs::read_dir(root.path()).expect("there").count(), 0);
    std::fs::write(root.path().join(".f.lowtide-part"), b"012").expect("written");
    let opened = Part::open(root.path(), &entry("f", 10), false).expect("opened").have();
    assert_eq!((have(root.path(), &entry("f", 10), false).expect("there"), opened.bytes), (opened.clone(), 3));
    assert_eq!(have(root.path(), &entry("f", 2), false).expect("there").bytes, 0, "longer than what is offered");
}

/// One opens the part, and before it has the lock another completes the file: it must not be begun anew.
#[test]
fn a_file_that_was_completed_meanwhile_is_left_alone() {
    let root = tempfile::tempdir().expect("a folder");
    let mut part = Part::open(root.path(), &entry("f", 3), false).expect("opened");
    let late = File::open(&part.part).expect("there");
    part.write(b"new").expect("written");
    let (whole, place, path) = (part.have(), part.place.clone(), part.part.clone());
    part.finish(&whole).expect("complete");
    assert!(lock(late, &path, &place).is_err_and(|e| e.is::<Busy>()));
    assert_eq!(std::fs::read(place).expect("there"), b"new");
}

#[test]
fn a_name_may_be_as_long_as_the_disk_allows() {
    let root = tempfile::tempdir().expect("a folder");
    for len in [240, 241, 242, 255] {
        let name = "n".repeat(len);
        let mut part = Part::open(root.path(), &entry(&name, 1), false).expect("room for its part's name");
        part.write(b"x").expect("written");
        let whole = part.have();
        part.finish(&whole).expect("complete");
        assert_eq!(std::fs::read(root.path().join(name)).expect("there"), b"x");
    }
    assert_ne!(part_name(&"a".repeat(255)), part_name(&"b".repeat(255)));
}

#[test]
fn two_do_not_receive_the_same_file() {
    let root = tempfile::tempdir().expect("a folder");
    let _first = Part::open(root.path(), &entry("f", 3), false).expect("opened");
    assert!(Part::open(root.path(), &entry("f", 3), false).is_err_and(|e| e.to_string().contains("already")));
}

#[test]
fn an_offer_of_too_many_files_or_of_one_twice_is_refused() {
    let entries =
        |names: &mut dyn Iterator<Item = usize>| -> Vec<Entry> { names.map(|n| Entry { path: format!("f{n}"), bytes: Some(1) }).collect() };
    check(&entries(&mut (0..MOST_FILES))).expect("as many as there may be");
    let error = |offered: &[Entry]| check(offered).expect_err("refused").to_string();
    assert!(error(&entries(&mut (0..MOST_FILES + 1))).contains("at most 100000"));
    assert!(error(&entries(&mut [1, 2, 1].into_iter())).contains("\"f1\": offered twice"));
}
