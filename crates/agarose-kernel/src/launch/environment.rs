//! The environment of a worker: by allowlist.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use super::Interpreter;

/// What gets through by its name.
const NAMES: &[&str] = &[
    "COLUMNS",
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "CONDA_PREFIX",
    "CONDA_PYTHON_EXE",
    "CONDA_SHLVL",
    "CUBLAS_WORKSPACE_CONFIG",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GDAL_DATA",
    "GOTO_NUM_THREADS",
    "HOME",
    "HOSTNAME",
    "JAVA_HOME",
    "JULIA_NUM_THREADS",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "MALLOC_ARENA_MAX",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "NUMEXPR_MAX_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "PATH",
    "POLARS_MAX_THREADS",
    "PROJ_DATA",
    "PROJ_LIB",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "RAYON_NUM_THREADS",
    "RETICULATE_PYTHON",
    "ROCR_VISIBLE_DEVICES",
    "R_ENVIRON",
    "R_ENVIRON_USER",
    "R_HOME",
    "R_LIBS",
    "R_LIBS_SITE",
    "R_LIBS_USER",
    "R_PROFILE",
    "R_PROFILE_USER",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "USER",
    "VECLIB_MAXIMUM_THREADS",
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "WAYLAND_DISPLAY",
];

/// What gets through by its beginning.
const BEGINNINGS: &[&str] = &[
    "BLIS_", "CUDA_", "HIP_", "JAX_", "KMP_", "LC_", "MKL_", "NVIDIA_", "OMP_", "PYTORCH_", "RENV_",
    "SLURM_", "XDG_", "XLA_",
];

/// What sounds like a secret does not get through, whatever it begins with.
const SECRETS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

fn passes(name: &str) -> bool {
    let listed = NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    listed && !SECRETS.iter().any(|secret| name.contains(secret))
}

/// The environment of a worker: what the allowlist lets through of `inherited`, and no more.
///
/// Never the keys of providers, proxies or `LD_*`. A variable that is not text is left out. The
/// variables of an environment other than the interpreter's own are left out, and the programs
/// of its own come first on `PATH`, so that `pip` in a cell is the cell's.
#[must_use]
pub fn worker_environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    interpreter: &Interpreter,
) -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> = inherited
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| passes(name))
        .collect();
    // PREFIX/bin/python, PREFIX/lib/R/bin/R.
    let prefix = interpreter.program.ancestors().skip(2).take(3).find(|prefix| is_own(prefix));
    let text = prefix.and_then(Path::to_str).map(str::to_owned);
    for (variable, marker) in [("VIRTUAL_ENV", "pyvenv.cfg"), ("CONDA_PREFIX", "conda-meta")] {
        let ours = text.clone().filter(|_| prefix.is_some_and(|prefix| prefix.join(marker).exists()));
        if environment.get(variable) != ours.as_ref() {
            environment.remove(variable);
            environment.remove(if variable == "VIRTUAL_ENV" {
                "VIRTUAL_ENV_PROMPT"
            } else {
                "CONDA_DEFAULT_ENV"
            });
        }
        if let Some(ours) = ours {
            environment.insert(variable.to_owned(), ours);
        }
    }
    if let Some(bin) = text.map(|prefix| format!("{prefix}/bin")) {
        let path = environment.get("PATH").map_or_else(String::new, Clone::clone);
        if path.split(':').next() != Some(&bin) {
            let path = if path.is_empty() { bin } else { format!("{bin}:{path}") };
            environment.insert("PATH".to_owned(), path);
        }
    }
    environment
}

/// Whether a prefix is an environment of its own, and not the system's.
fn is_own(prefix: &Path) -> bool {
    prefix.join("pyvenv.cfg").exists() || prefix.join("conda-meta").exists()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use agarose_core::Language;

    use super::*;

    fn environment(inherited: &[(&str, &str)], program: PathBuf) -> BTreeMap<String, String> {
        let inherited = inherited.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let interpreter = Interpreter { language: Language::Python, program, found: String::new() };
        worker_environment(inherited, &interpreter)
    }

    #[test]
    fn keys_proxies_and_the_linker_s_variables_do_not_get_through() {
        let got = environment(
            &[
                ("HOME", "/home/ada"),
                ("LC_ALL", "C.UTF-8"),
                ("OMP_NUM_THREADS", "2"),
                ("ANTHROPIC_API_KEY", "k"),
                ("AWS_SECRET_ACCESS_KEY", "k"),
                ("XDG_TOKEN", "k"),
                ("HTTPS_PROXY", "p"),
                ("http_proxy", "p"),
                ("LD_PRELOAD", "l"),
                ("LD_LIBRARY_PATH", "l"),
                ("AGAROSE_LISTENER", "3"),
            ],
            "/usr/bin/python3".into(),
        );
        let names: Vec<&str> = got.keys().map(String::as_str).collect();
        assert_eq!(names, ["HOME", "LC_ALL", "OMP_NUM_THREADS"]);
    }

    #[test]
    fn an_r_of_conda_has_its_environment_s_programs_and_name() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("conda-meta")).unwrap();
        let got = environment(&[("PATH", "/usr/bin")], root.path().join("lib/R/bin/R"));
        let prefix = root.path().to_str().unwrap();
        let wanted = [("PATH", format!("{prefix}/bin:/usr/bin")), ("CONDA_PREFIX", prefix.to_owned())];
        assert_eq!(got, wanted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        let system =
            environment(&[("PATH", "/bin"), ("CONDA_PREFIX", "/another")], "/usr/lib/R/bin/R".into());
        assert_eq!(system, BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]));
    }

    #[test]
    fn the_programs_of_the_interpreter_s_own_environment_come_first() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("pyvenv.cfg"), "").unwrap();
        let got = environment(
            &[("PATH", "/usr/bin"), ("VIRTUAL_ENV", "/another"), ("CONDA_PREFIX", "/conda")],
            root.path().join("bin/python"),
        );
        let prefix = root.path().to_str().unwrap();
        let wanted = [("PATH", format!("{prefix}/bin:/usr/bin")), ("VIRTUAL_ENV", prefix.to_owned())];
        assert_eq!(got, wanted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    }
}
