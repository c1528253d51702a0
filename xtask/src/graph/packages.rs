//! The packages of the tree, those outside of the workspace included, and their targets, as cargo lists them.

use super::package::{Graph, Target};
use crate::common::tracked_files;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder from the root of the tree, which is empty for the package there.
    folder: String,
    targets: Vec<Target>,
}

impl Package {
    /// Whether this is the package's name or its folder.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name || (!self.folder.is_empty() && self.folder == name.trim_end_matches('/'))
    }

    pub(crate) fn graph(&self) -> Result<Graph, String> {
        let files = |file: &str| std::fs::read_to_string(file).ok();
        Graph::read(&files, &self.folder, &self.targets)
    }
}

/// Lists the packages of the tree in the current directory, by name.
pub(crate) fn list() -> Result<Vec<Package>, String> {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let mut packages: Vec<Package> = Vec::new();
    for manifest in tracked_files("Cargo.toml")? {
        let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/');
        if packages.iter().all(|package| package.folder != folder) {
            packages.extend(read(&manifest, &here)?);
        }
    }
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(packages)
}

/// Reads all packages of the workspace to which this manifest belongs.
fn read(manifest: &str, here: &Path) -> Result<Vec<Package>, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest])
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("{manifest}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{manifest}: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.map(|package| package_of(package, here)).collect()
}

fn package_of(package: &Value, here: &Path) -> Result<Package, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let inside = |path: &Value| {
        let path = text(path);
        let inside = Path::new(&path).strip_prefix(here).map(|path| path.display().to_string());
        inside.map_err(|_| format!("{path} is outside of the current directory"))
    };
    let targets = package["targets"].as_array().into_iter().flatten().map(|target| {
        let kinds: Vec<String> =
            target["kind"].as_array().into_iter().flatten().map(text).collect();
        let is_shipped = kinds.iter().any(|kind| kind.contains("lib") || kind == "bin");
        Ok(Target { root: inside(&target["src_path"])?, tests_count: !is_shipped })
    });
    let folder = inside(&package["manifest_path"])?;
    let folder = folder.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
    Ok(Package {
        name: text(&package["name"]),
        folder,
        targets: targets.collect::<Result<_, String>>()?,
    })
}
