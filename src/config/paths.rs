//! Where files lie when nothing else is said: the XDG folders, and the names below them.
//!
//! Derived from an [`Environment`] that is handed in. Nothing here touches the disk.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::config::Config;

/// The folder of Sexton below the XDG folders.
const FOLDER: &str = "sexton";

/// The environment variables that settings and paths come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// Reads the variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// Returns a variable; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Iterates over all variables whose names begin with `prefix`, empty ones included.
    pub fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a OsStr)> {
        let all = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        all.map(|(name, value)| (name.as_str(), value.as_os_str()))
    }

    /// Returns a folder named by a variable, which counts only when it is absolute, as the XDG specification asks.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// There is no folder to keep state in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no folder to keep state in: set XDG_STATE_HOME or HOME to an absolute path")]
pub struct NoStateFolder;

/// Every path that Sexton uses by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    env: Environment,
}

impl Paths {
    /// Derives them from `env`.
    #[must_use]
    pub fn new(env: Environment) -> Self {
        Self { env }
    }

    /// Returns the configuration file that is read when none is named, whether it exists or not.
    #[must_use]
    pub fn config_file(&self) -> Option<PathBuf> {
        let home = || self.home().map(|home| home.join(".config"));
        self.env.folder("XDG_CONFIG_HOME").or_else(home).map(|folder| folder.join(FOLDER).join("config.toml"))
    }

    /// Returns the folder that holds everything which must outlive a restart.
    ///
    /// # Errors
    /// When neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    pub fn state_dir(&self) -> Result<PathBuf, NoStateFolder> {
        let home = || self.home().map(|home| home.join(".local/state"));
        let base = self.env.folder("XDG_STATE_HOME").or_else(home).ok_or(NoStateFolder)?;
        Ok(base.join(FOLDER))
    }

    /// Returns the URL of the store.
    ///
    /// # Errors
    /// When none is configured and there is no state folder.
    pub fn store_url(&self, config: &Config) -> Result<String, NoStateFolder> {
        if config.store.url.is_empty() {
            let path = self.state_dir()?.join("sexton.db");
            // `%` and `?` mean something else in a URL.
            let text = path.to_string_lossy().replace('%', "%25").replace('?', "%3F");
            return Ok(format!("sqlite://{text}"));
        }
        Ok(config.store.url.clone())
    }

    /// Returns the folder where the runner of this machine keeps its records.
    ///
    /// # Errors
    /// When none is configured and there is no state folder.
    pub fn runner_state_dir(&self, config: &Config) -> Result<PathBuf, NoStateFolder> {
        self.configured_or(&config.runner.state_dir, "runner")
    }

    /// Returns the file with the secret of the runner of this machine.
    ///
    /// # Errors
    /// When none is configured and there is no state folder.
    pub fn runner_token_file(&self, config: &Config) -> Result<PathBuf, NoStateFolder> {
        self.configured_or(&config.runner.token_file, "runner.token")
    }

    /// Returns the file with the token that Sexton's own command line shows to the API.
    ///
    /// # Errors
    /// When there is no state folder.
    pub fn api_token_file(&self) -> Result<PathBuf, NoStateFolder> {
        Ok(self.state_dir()?.join("token"))
    }

    /// Returns whose sessions these are: as configured, else the user's name, else `local`.
    #[must_use]
    pub fn owner(&self, config: &Config) -> String {
        let user = |name| self.env.get(name).map(|value| value.to_string_lossy().into_owned());
        let configured = Some(config.owner.clone()).filter(|owner| !owner.is_empty());
        configured.or_else(|| user("USER")).or_else(|| user("LOGNAME")).unwrap_or_else(|| "local".to_owned())
    }

    /// Returns the name of the user who runs Sexton by the environment; empty when it does not say.
    #[must_use]
    pub fn user(&self) -> String {
        let name = self.env.get("USER").or_else(|| self.env.get("LOGNAME"));
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Returns the folders in which programs are looked for, as one value.
    #[must_use]
    pub fn search_path(&self) -> Option<OsString> {
        self.env.get("PATH").map(OsStr::to_owned)
    }

    /// Returns the folders of the user's own systemd units, those that win first.
    #[must_use]
    pub fn user_unit_folders(&self) -> Vec<PathBuf> {
        let under = |name: &str, home: &str| self.env.folder(name).or_else(|| Some(self.home()?.join(home)));
        let folders = [under("XDG_CONFIG_HOME", ".config"), under("XDG_DATA_HOME", ".local/share")];
        folders.into_iter().flatten().map(|folder| folder.join("systemd/user")).collect()
    }

    fn configured_or(&self, configured: &str, name: &str) -> Result<PathBuf, NoStateFolder> {
        match (configured, configured.strip_prefix("~/"), self.home()) {
            ("", _, _) => Ok(self.state_dir()?.join(name)),
            (_, Some(below), Some(home)) => Ok(home.join(below)),
            (path, _, _) => Ok(Path::new(path).to_owned()),
        }
    }

    fn home(&self) -> Option<PathBuf> {
        self.env.folder("HOME")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(variables: &[(&str, &str)]) -> Paths {
        Paths::new(variables.iter().copied().collect())
    }

    #[test]
    fn xdg_folders_come_before_home() {
        let home = paths(&[("HOME", "/home/ada")]);
        assert_eq!(home.config_file(), Some("/home/ada/.config/sexton/config.toml".into()));
        assert_eq!(home.state_dir(), Ok("/home/ada/.local/state/sexton".into()));
        let xdg = paths(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "/s")]);
        assert_eq!(xdg.config_file(), Some("/c/sexton/config.toml".into()));
        assert_eq!(xdg.api_token_file(), Ok("/s/sexton/token".into()));
    }

    #[test]
    fn relative_and_empty_folders_do_not_count() {
        let odd = paths(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "."), ("XDG_STATE_HOME", "")]);
        assert_eq!(odd.config_file(), Some("/home/ada/.config/sexton/config.toml".into()));
        assert_eq!(odd.state_dir(), Ok("/home/ada/.local/state/sexton".into()));
        assert_eq!(paths(&[]).config_file(), None);
        assert_eq!(paths(&[]).state_dir(), Err(NoStateFolder));
    }

    #[test]
    fn settings_come_before_the_state_folder() {
        let paths = paths(&[("HOME", "/home/ada"), ("XDG_STATE_HOME", "/100%?")]);
        let mut config = Config::defaults();
        assert_eq!(paths.store_url(&config), Ok("sqlite:///100%25%3F/sexton/sexton.db".to_owned()));
        assert_eq!(paths.runner_state_dir(&config), Ok("/100%?/sexton/runner".into()));
        assert_eq!(paths.runner_token_file(&config), Ok("/100%?/sexton/runner.token".into()));
        config.store.url = "sqlite:///elsewhere.db".to_owned();
        config.runner.state_dir = "~/runner".to_owned();
        config.runner.token_file = "/etc/secret".to_owned();
        assert_eq!(paths.store_url(&config), Ok("sqlite:///elsewhere.db".to_owned()));
        assert_eq!(paths.runner_state_dir(&config), Ok("/home/ada/runner".into()));
        assert_eq!(paths.runner_token_file(&config), Ok("/etc/secret".into()));
    }

    #[test]
    fn the_owner_is_configured_or_the_user() {
        let mut config = Config::defaults();
        assert_eq!(paths(&[("USER", "ada"), ("LOGNAME", "lovelace")]).owner(&config), "ada");
        assert_eq!(paths(&[("USER", ""), ("LOGNAME", "lovelace")]).owner(&config), "lovelace");
        assert_eq!(paths(&[]).owner(&config), "local");
        config.owner = "babbage".to_owned();
        assert_eq!(paths(&[("USER", "ada")]).owner(&config), "babbage");
    }
}
