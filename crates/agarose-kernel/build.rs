//! Puts the sources of the workers into the program, whatever files they are.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let workers = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("workers");
    println!("cargo::rerun-if-changed={}", workers.display());
    let mut code = String::from("const FILES: &[(&str, &str)] = &[\n");
    // FNV-1a: the digest only has to tell one version of the sources from another.
    let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
    for language in ["python", "r"] {
        let Ok(entries) = fs::read_dir(workers.join(language)) else {
            continue;
        };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
        paths.sort();
        for path in paths {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let (Some("py" | "R"), Some(name)) = (extension, path.file_name().and_then(|name| name.to_str()))
            else {
                continue;
            };
            println!("cargo::rerun-if-changed={}", path.display());
            let name = format!("{language}/{name}");
            writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string())?;
            for byte in name.bytes().chain(fs::read(&path)?).chain([0]) {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    writeln!(code, "];\nconst DIGEST: u64 = {digest:#x};")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("workers.rs"), code)?;
    Ok(())
}
