//! No modules of a crate import each other in a circle: what a file stands on can be read before it. A module and what lies in its folder count as one
//! room: children may use what their parent has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The text of each module below a folder by its path, without tests, comments and spaces.
fn modules(dir: &Path, at: &str, found: &mut BTreeMap<String, String>) {
    for path in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        if path.is_dir() && name != "tests" {
            modules(&path, &format!("{at}::{name}"), found);
        } else if path.extension().is_some_and(|ext| ext == "rs") && !["lib", "main", "tests"].contains(&name) {
            let text = fs::read_to_string(&path).expect("a source");
            let code = text.split("#[cfg(test)]\nmod ").next().expect("a first part");
            let line = |line: &str| line.split("//").next().expect("a first part").split(' ').collect::<String>();
            found.insert(format!("{at}::{name}"), code.lines().map(line).collect());
        }
    }
}

/// The module that a path leads to from `here`, as deep as there are modules.
fn module_of(path: &str, here: &str, all: &BTreeMap<String, String>) -> String {
    let mut at = here.to_owned();
    for segment in path.split("::") {
        match segment {
            "crate" => at.clear(),
            "super" => at.truncate(at.rfind("::").unwrap_or(0)),
            "self" => {}
            deeper if all.contains_key(&format!("{at}::{deeper}")) => at += &format!("::{deeper}"),
            _ => break,
        }
    }
    at
}

/// What a module imports, its own ancestors left out. Of a list in braces each; a list within a list is none of this house's imports.
fn imports(here: &str, text: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let starts = ["crate::", "super::", "self::"].iter().flat_map(|start| text.match_indices(start)).map(|(at, _)| at);
    let named = starts.flat_map(|at| {
        let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
        let path = &text[at..at + end(&text[at..])];
        let list = text[at + path.len()..].strip_prefix('{').map_or("", |list| list.split('}').next().expect("a first part"));
        list.split(',').map(move |item| format!("{path}{}", &item[..end(item)])).collect::<Vec<_>>()
    });
    let there = named.map(|path| module_of(&path, here, all));
    there.filter(|there| all.contains_key(there) && !format!("{here}::").starts_with(&format!("{there}::"))).collect()
}

#[test]
fn no_modules_of_a_crate_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for of in
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates").map(|entry| entry.expect("a crate").path())
    {
        let mut all = BTreeMap::new();
        modules(&of.join("src"), "", &mut all);
        let imports: BTreeMap<_, _> = all.iter().map(|(here, text)| (here.as_str(), imports(here, text, &all))).collect();
        for &module in imports.keys() {
            let (mut reached, mut next) = (BTreeSet::new(), vec![module]);
            while let Some(at) = next.pop() {
                next.extend(imports[at].iter().filter(|there| reached.insert(there.as_str())).map(String::as_str));
            }
            if reached.contains(module) {
                circles.push(format!("{}{module}", of.display()));
            }
        }
    }
    assert!(circles.is_empty(), "a chain of imports leads from each of these back to it:\n{}", circles.join("\n"));
}
