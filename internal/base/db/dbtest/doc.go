// Package dbtest gives tests fresh databases of both kinds, and holds the suite
// that both must pass ([Conformance]).
//
// PostgreSQL is a real server: the one in INGOT_TEST_POSTGRES_URL, or a
// private one that is started when the first test needs it and exits with the
// process. If its programs are missing, tests fail and say what to install,
// unless INGOT_TEST_NO_POSTGRES=1 asks to skip them.
//
// Only tests may import it.
//
// Imports: base/db, base/db/dbtest/pgproc, base/seal, base/testkit,
// github.com/jackc/pgx/v5.
package dbtest
