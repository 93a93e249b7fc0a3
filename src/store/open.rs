//! Opening a store: its file, its lock at first start, its check and its schema. Everything here is SQLite's own.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use crate::store::place::Place;
use crate::store::{Inner, Store, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// "SXTN" in the file's header: this SQLite file is a store of Sexton.
const APPLICATION_ID: i64 = 0x5358_544e;
/// How long a statement waits for another process's write.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long opening waits for another process that is opening the same file.
const LOCK_ATTEMPTS: u32 = 600;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const READERS: u32 = 4;

impl Store {
    /// Opens the store at `url` (`sqlite:///absolute/path` or `sqlite://relative/path`), and makes it when it is not
    /// there: folder 0700, file 0600. Processes that open the same new file at once all get the same store.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when the URL is of another kind, the file cannot be read and written, is no store of
    /// Sexton, or comes from a newer version; [`StoreError::Damaged`] when SQLite finds the file damaged;
    /// [`StoreError::Busy`] when another process keeps it locked. Nothing is changed in any of these cases.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let path = path_of(url)?;
        let name = path.display().to_string();
        make_folder(&path).map_err(|why| StoreError::unusable(&name, why))?;
        // Held until the schema stands: SQLite's own migrations take no lock across processes.
        let lock = lock(&path, &name).await?;
        make_file(&path).map_err(|why| StoreError::unusable(&name, why))?;
        let place =
            Place::of(&path).map_err(|why| StoreError::unusable(&name, format!("it cannot be looked at ({why})")))?;
        let writer = connect(&path, &name).await?;
        if let Err(error) = prepare(&writer, &name).await {
            writer.close().await;
            return Err(error);
        }
        drop(lock);
        let options = base_options(&path).pragma("query_only", "ON");
        let readers =
            SqlitePoolOptions::new().max_connections(READERS).test_before_acquire(false).connect_lazy_with(options);
        Ok(Self { inner: Arc::new(Inner { name, place, writer, readers }) })
    }
}

fn path_of(url: &str) -> Result<PathBuf, StoreError> {
    match url.strip_prefix("sqlite://") {
        Some("" | "/" | ":memory:") => Err(StoreError::unusable(url, "it names no file")),
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(StoreError::unusable(
            &without_password(url),
            "only SQLite is supported so far, as in sqlite:///var/lib/sexton.db",
        )),
    }
}

/// Leaves out what stands before the host of a URL, so that no password ends up in a log.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}

fn make_folder(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|why| format!("its folder cannot be made ({why})")),
        _ => Ok(()),
    }
}

async fn lock(path: &Path, name: &str) -> Result<File, StoreError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let unusable = |why: std::io::Error| StoreError::unusable(name, format!("it cannot be locked ({why})"));
    let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(&beside);
    let file = file.map_err(unusable)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
            Err(TryLockError::Error(why)) => return Err(unusable(why)),
        }
    }
    Err(StoreError::Busy { store: name.to_owned() })
}

/// Makes an empty file, which SQLite takes for an empty database, or looks whether what is there can be a store.
fn make_file(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err("it is a folder".to_owned());
    }
    let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|why| format!("it cannot be read and written ({why})"))?;
    let mut head = Vec::new();
    file.take(16).read_to_end(&mut head).map_err(|why| format!("it cannot be read ({why})"))?;
    if head.is_empty() || head == b"SQLite format 3\0" {
        return Ok(());
    }
    Err("it is no SQLite file, or its beginning is damaged; nothing was changed in it, and nothing is reaped"
        .to_owned())
}

fn base_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

async fn connect(path: &Path, name: &str) -> Result<SqlitePool, StoreError> {
    // Looked at before WAL is switched on, so that a foreign file is left exactly as it was.
    let looking = SqlitePoolOptions::new().max_connections(1).connect_with(base_options(path)).await;
    let looking = looking.map_err(|error| StoreError::of(name, &error))?;
    let owned = check_ownership(&looking, name).await;
    looking.close().await;
    owned?;
    let options = base_options(path).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .after_release(|connection, _| Box::pin(is_reusable(connection)))
        .connect_with(options)
        .await;
    pool.map_err(|error| StoreError::of(name, &error))
}

/// Returns whether a writer that was given back can begin a transaction again.
///
/// SQLite rolls a transaction back by itself when the disk is full. The driver's own rollback then fails, and it believes
/// for ever that the transaction still stands; such a connection has to go.
async fn is_reusable(writer: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // A rollback may still be on its way to the connection's thread, and the answer to this comes after it.
    writer.ping().await?;
    Ok(!writer.is_in_transaction())
}

/// Refuses a file of another program and one whose pages do not fit together, and claims an empty one.
async fn check_ownership(pool: &SqlitePool, name: &str) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| StoreError::of(name, &error);
    let application: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(pool).await.map_err(failed)?;
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master").fetch_one(pool).await.map_err(failed)?;
    if application != APPLICATION_ID && (application != 0 || tables != 0) {
        return Err(StoreError::unusable(name, "it is a SQLite file of another program"));
    }
    let found: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(pool).await.map_err(failed)?;
    if found != "ok" {
        return Err(StoreError::Damaged { store: name.to_owned(), why: found });
    }
    if application == 0 {
        // The number is APPLICATION_ID; a pragma takes no argument. A test compares them.
        sqlx::query("PRAGMA application_id = 1398297678").execute(pool).await.map_err(failed)?;
    }
    Ok(())
}

/// Brings the schema up to what this build knows.
async fn prepare(pool: &SqlitePool, name: &str) -> Result<(), StoreError> {
    let failed = |error: &sqlx::Error| StoreError::of(name, error);
    refuse_newer(pool, name).await?;
    let run = MIGRATIONS.run(pool).await;
    run.map_err(|error| {
        if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = &error {
            return failed(error);
        }
        StoreError::unusable(name, error.to_string())
    })
}

async fn refuse_newer(pool: &SqlitePool, name: &str) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| StoreError::of(name, &error);
    let known = MIGRATIONS.iter().map(|step| step.version).max().unwrap_or(0);
    let any: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'")
        .fetch_one(pool)
        .await
        .map_err(failed)?;
    if any == 0 {
        return Ok(());
    }
    let found: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(pool).await.map_err(failed)?;
    match found {
        Some(found) if found > known => Err(StoreError::unusable(
            name,
            format!(
                "it was written by a newer version of Sexton (its schema is {found}, this version knows up to {known})"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{APPLICATION_ID, is_reusable};
    use crate::store::Store;

    async fn opened(folder: &tempfile::TempDir) -> Store {
        Store::open(&format!("sqlite://{}", folder.path().join("s.db").display())).await.unwrap()
    }

    /// Allows the writer's file not one page more, which to SQLite is a full disk.
    async fn fill_up(store: &Store) {
        let pages: i64 = sqlx::query_scalar("PRAGMA max_page_count = 1").fetch_one(store.writer()).await.unwrap();
        assert!(pages > 1);
    }

    const LARGE: &str = "INSERT INTO settings (name, value) VALUES ('large', hex(zeroblob(1000000)))";

    #[tokio::test]
    async fn a_full_disk_inside_a_transaction_does_not_end_all_writing() {
        let folder = tempfile::tempdir().unwrap();
        let store = opened(&folder).await;
        fill_up(&store).await;
        let mut tx = store.begin().await.unwrap();
        let full = sqlx::query(LARGE).execute(&mut *tx).await.unwrap_err();
        assert!(full.to_string().contains("full"), "{full}");
        drop(tx);

        let mut tx = store.begin().await.unwrap();
        sqlx::query(LARGE).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.setting("large").await.unwrap().unwrap().len(), 2_000_000);
    }

    #[tokio::test]
    async fn a_writer_is_kept_after_an_ordinary_rollback_and_discarded_after_sqlites_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = opened(&folder).await;
        fill_up(&store).await;
        let mut writer = store.writer().acquire().await.unwrap();
        drop(sqlx::Connection::begin_with(&mut *writer, "BEGIN IMMEDIATE").await.unwrap());
        assert!(is_reusable(&mut writer).await.unwrap());

        let mut tx = sqlx::Connection::begin_with(&mut *writer, "BEGIN IMMEDIATE").await.unwrap();
        sqlx::query(LARGE).execute(&mut *tx).await.unwrap_err();
        drop(tx);
        assert!(!is_reusable(&mut writer).await.unwrap());
    }

    #[test]
    fn the_pragma_writes_the_application_id() {
        assert_eq!(APPLICATION_ID, 1_398_297_678);
    }
}
