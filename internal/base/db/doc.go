// Package db gives access to the database: SQLite in a file, or PostgreSQL when
// several server processes share the data. Its users write their SQL once, and it
// runs on both.
//
// # One code path
//
// SQL uses ? as placeholder; for PostgreSQL it becomes $1, $2 and so on. A
// question mark in a string, a quoted name or a comment is left alone, and ??
// stands for a plain question mark (a PostgreSQL operator). One call runs one
// statement. $1 and ?1 are rejected on both.
//
// The types of the schema are TEXT, BIGINT, INTEGER (32 bits), BOOLEAN and
// DOUBLE PRECISION, so that migration files are the same for both. Times are
// BIGINT: nanoseconds since 1970 in UTC, see [Nanos] and [Time]. JSON and sealed
// values are TEXT, see [JSON] and [Tx.Seal]. Text is valid UTF-8 without NUL
// bytes: PostgreSQL cannot store anything else, so both reject it with
// [ErrText].
//
// SQLite is lax where PostgreSQL is strict. To get the same behavior on both,
// write NOT NULL also on a TEXT PRIMARY KEY (SQLite allows NULL there), generate
// keys in the program and not by a sequence, and cast a bare placeholder whose type
// cannot be inferred: CAST(? AS TEXT) IS NULL.
//
// # Order and comparison of text
//
// SQLite compares text byte by byte. So does PostgreSQL with COLLATE "C";
// otherwise ORDER BY, < and > follow the collation the database was created
// with, and lists come in another order. Declare text that is ever sorted or
// compared as TEXT COLLATE "C" in the migration, or write ORDER BY name COLLATE
// "C" in the query: for SQLite it becomes COLLATE BINARY. Equality is
// byte by byte everywhere. LIKE is case-sensitive on both.
//
// # Transactions
//
// All access is inside [DB.Update] or [DB.View]. SQLite has one writer at a
// time, so its transactions are serializable. PostgreSQL therefore runs Update
// at SERIALIZABLE too: at its default level, or at REPEATABLE READ, the usual
// "read, then write" (is the name free? is the quota not used up?) is correct on
// SQLite and silently wrong on PostgreSQL, because of write skew. The price is that
// a transaction may fail at the end because of another; Update retries it, so
// its function must be safe to run more than once. View is a snapshot:
// REPEATABLE READ READ ONLY, or a WAL read transaction. Queues with many
// workers use [DB.UpdateLocking], which guarantees less.
//
// After a statement has failed, the transaction is aborted, as in PostgreSQL:
// later statements fail too and Update does not commit. Use ON CONFLICT where
// a conflict is expected. One result is read at a time: the rows of one query
// must be closed before the next statement runs. Prefer [One] and [All], which
// close their rows and return errors in a common form ([ErrNotFound],
// [ConflictError], [ErrReadOnly]).
//
// # What a commit costs
//
// SQLite runs with synchronous=FULL: an acknowledged transaction survives a power
// cut. See sqlite.go for the measured cost.
//
// It defines no tables: each service has its own store, with its own
// migrations.
//
// Imports: base/background, base/datadir, base/fault, base/filelock,
// base/pattern, base/seal, github.com/hashicorp/golang-lru/v2/simplelru,
// github.com/jackc/pgx/v5, github.com/jackc/pgx/v5/pgconn,
// github.com/jackc/pgx/v5/stdlib, github.com/maypok86/otter/v2,
// github.com/pressly/goose/v3, modernc.org/sqlite, modernc.org/sqlite/lib.
package db
