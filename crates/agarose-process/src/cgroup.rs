//! Control groups, where they can be written to.
//!
//! Version 2 where it is; on machines that have both, version 2 for `cgroup.kill` and version 1
//! for memory and processes; where neither can be written to, nothing, and resource limits have
//! to do.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// A control group of our own, in up to three hierarchies.
#[derive(Debug, Default)]
pub struct Cgroup {
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    limits_memory: bool,
    limits_processes: bool,
}

impl Cgroup {
    /// Makes a group called `name` below our own, with these limits; as much of it as can be had.
    #[must_use]
    pub fn create(name: &str, memory: Option<u64>, processes: Option<u64>) -> Self {
        let mut group = Self::default();
        let Ok(places) = Hierarchies::read() else {
            return group;
        };
        if let Some(parent) = places.unified {
            // Refused when the parent has processes of its own; then it serves to kill only.
            drop(fs::write(parent.join("cgroup.subtree_control"), "+memory +pids"));
            group.unified = make(&parent, name);
        }
        if let Some(dir) = &group.unified {
            group.limits_memory = memory.is_some_and(|bytes| set(dir, "memory.max", bytes));
            group.limits_processes = processes.is_some_and(|count| set(dir, "pids.max", count));
        }
        if let (Some(bytes), false, Some(parent)) = (memory, group.limits_memory, places.memory) {
            group.memory = make(&parent, name);
            group.limits_memory =
                group.memory.as_deref().is_some_and(|dir| set(dir, "memory.limit_in_bytes", bytes));
        }
        if let (Some(count), false, Some(parent)) = (processes, group.limits_processes, places.pids) {
            group.pids = make(&parent, name);
            group.limits_processes = group.pids.as_deref().is_some_and(|dir| set(dir, "pids.max", count));
        }
        group
    }

    /// Whether the memory limit is held here.
    #[must_use]
    pub const fn limits_memory(&self) -> bool {
        self.limits_memory
    }

    /// Whether the limit of processes is held here.
    #[must_use]
    pub const fn limits_processes(&self) -> bool {
        self.limits_processes
    }

    fn places(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.unified, &self.memory, &self.pids].into_iter().flatten()
    }

    /// The files by which a child enters, for [`crate::SpawnPlan::control_groups`].
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        self.places()
            .map(|dir| OpenOptions::new().write(true).open(dir.join("cgroup.procs")).map(OwnedFd::from))
            .collect()
    }

    /// Kills all of it in one act, where the system can; says whether it could.
    pub fn kill(&self) -> bool {
        self.unified.as_deref().is_some_and(|dir| fs::write(dir.join("cgroup.kill"), "1").is_ok())
    }

    /// How often the system killed in it for want of memory, if that is counted here.
    #[must_use]
    pub fn oom_kills(&self) -> Option<u64> {
        let counted = |dir: &Path, file: &str| {
            let text = fs::read_to_string(dir.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
        };
        let unified = self.unified.as_deref().and_then(|dir| counted(dir, "memory.events"));
        unified.or_else(|| self.memory.as_deref().and_then(|dir| counted(dir, "memory.oom_control")))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that has just died may still be counted for a moment.
        for dir in self.places() {
            for _ in 0..20 {
                match fs::remove_dir(dir) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}

fn make(parent: &Path, name: &str) -> Option<PathBuf> {
    let dir = parent.join(name);
    fs::create_dir(&dir).ok()?;
    // A directory that nobody may enter is of no use.
    if File::options().write(true).open(dir.join("cgroup.procs")).is_err() {
        drop(fs::remove_dir(&dir));
        return None;
    }
    Some(dir)
}

fn set(dir: &Path, file: &str, value: u64) -> bool {
    let path = dir.join(file);
    path.exists() && fs::write(path, value.to_string()).is_ok()
}

/// Our own place in each hierarchy that matters.
struct Hierarchies {
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
}

impl Hierarchies {
    fn read() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let places = fs::read_to_string("/proc/self/cgroup")?;
        Ok(Self {
            unified: place(&mounts, &places, None),
            memory: place(&mounts, &places, Some("memory")),
            pids: place(&mounts, &places, Some("pids")),
        })
    }
}

/// Where we are in the hierarchy of a version 1 controller, or in that of version 2.
fn place(mounts: &str, places: &str, controller: Option<&str>) -> Option<PathBuf> {
    let (root, mount) = mounts.lines().find_map(|line| {
        // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [OPTIONAL…] - TYPE SOURCE SUPER_OPTIONS
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1)?);
        let fits = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        let mut front = front.split(' ');
        let (root, mount) = (front.nth(3)?, front.next()?);
        fits.then_some((root, mount))
    })?;
    let own = places.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = match controller {
            None => number == "0" && controllers.is_empty(),
            Some(name) => controllers.split(',').any(|entry| entry == name),
        };
        fits.then_some(path)
    })?;
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or(own);
    let place = Path::new(mount).join(below.trim_start_matches('/'));
    place.is_dir().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_both_versions_is_read_right() {
        let mounts = "31 30 0:26 / / rw,relatime - cgroup cgroup rw,memory\n\
                      32 30 0:27 / / rw shared:3 - cgroup2 cgroup2 rw\n";
        let places = "4:memory:/\n0::/\n";
        assert_eq!(place(mounts, places, Some("memory")), Some(PathBuf::from("/")));
        assert_eq!(place(mounts, places, None), Some(PathBuf::from("/")));
        assert_eq!(place(mounts, places, Some("pids")), None);
    }

    #[test]
    fn a_group_that_was_made_is_gone_when_it_is_dropped() {
        let group = Cgroup::create(&format!("agarose-test-{}", std::process::id()), Some(1 << 30), Some(100));
        let dirs: Vec<PathBuf> = group.places().cloned().collect();
        drop(group);
        assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    }
}
