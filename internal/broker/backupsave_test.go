package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/seal"
	"ingot/internal/broker/dump"
)

// stalledSoon makes a backup give up soon.
const stalledSoon = time.Second

// savedExcept saves the data of all instances. Those in locked are expected to fail, and get
// a file that says so; only for them the limit is short. It returns what was reported.
func savedExcept(t *testing.T, dir string, keys *seal.Keyring, locked ...string) (saved map[string][]byte,
	said []string) {
	t.Helper()
	saved = map[string][]byte{}
	isLocked := func(id string) bool { return strings.Contains(strings.Join(locked, " "), id) }
	for _, c := range []Config{{Dir: dir, Keys: keys}, {Dir: dir, Keys: keys, Stall: stalledSoon}} {
		all, err := Savable(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if isLocked(one.ID) != (c.Stall != 0) {
				continue
			}
			var out bytes.Buffer
			missing, err := one.Save(t.Context(), &out)
			said = append(said, missing...)
			saved[one.Name] = out.Bytes()
			var unsaved *UnsavedError
			if !isLocked(one.ID) {
				if err != nil {
					t.Errorf("another instance fails as well: %v", err)
				}
			} else if !errors.As(err, &unsaved) || unsaved.ID != one.ID ||
				!strings.Contains(err.Error(), "nothing was written for 1") {
				t.Errorf("save an instance with a locked table: %v", err)
			} else {
				saved[one.Name+FailedSuffix] = []byte(unsaved.Why)
			}
		}
	}
	return saved, said
}

// TestSaveOfHostileMySQL: a tenant with broken views or a locked table has a backup of
// everything else, and so have all others.
func TestSaveOfHostileMySQL(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{Postgres, Redis}})
	need(t, b, MySQL)
	c := clientOf(t, b)
	brokenID, lockedID := c.made(MySQL, "small"), c.made(MySQL, "small")
	_, broken := c.bound(MySQL, brokenID)
	_, locked := c.bound(MySQL, lockedID)
	mustRun(t, my(t, broken), "CREATE TABLE a (n int)", "CREATE TABLE gone (n int)",
		"CREATE VIEW `b\nad` AS SELECT n FROM gone", "CREATE VIEW other AS SELECT n FROM gone",
		"CREATE TABLE z (n int)", "CREATE VIEW fine AS SELECT n FROM z", "INSERT INTO z VALUES (7)", "DROP TABLE gone")
	db := my(t, locked)
	mustRun(t, db, "CREATE TABLE t (n int)")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "LOCK TABLES t WRITE"); err != nil {
		t.Fatal(err)
	}

	saved, said := savedExcept(t, dir, keys, lockedID)
	if len(said) != 2 || !strings.HasPrefix(said[0], "mysql instance "+brokenID+": `b ad`: View '") ||
		!strings.Contains(said[1], "`other`: ") || !strings.HasSuffix(said[1], "(1356)") {
		t.Errorf("reported as not saved: %q, want two views", said)
	}
	for _, id := range []string{brokenID, lockedID} {
		var temporary int
		if err := ownDB[*mariadb](t, b, id).
			admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM mysql.global_priv WHERE User LIKE 'tmp%'").
			Scan(&temporary); err != nil || temporary != 0 {
			t.Errorf("%d temporary users are left, %v", temporary, err)
		}
	}
	b.Stop()
	_, done := restoredBroker(t, dir, keys, saved)
	if want := "the data of the mysql instance " + lockedID +
		": it was not saved: nothing was written for 1s: is a table locked?"; done.Instances != 2 || len(done.Lost) != 3 ||
		!slices.Contains(done.Lost, want) {
		t.Errorf("restored %+v, want 2 instances, two views that cannot be created, and %q", done, want)
	}
	var n int
	if err := my(t, broken).QueryRowContext(t.Context(), "SELECT n FROM fine").Scan(&n); err != nil || n != 7 {
		t.Errorf("got %d, %v: what is not broken", n, err)
	}
	mustRun(t, my(t, locked), "CREATE TABLE t (n int)") // it is empty
}

func TestSaveOfLockedPostgres(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{MySQL, Redis}})
	need(t, b, Postgres)
	c := clientOf(t, b)
	lockedID, lockedToo := c.made(Postgres, "small"), c.made(Postgres, "small")
	_, locked := c.bound(Postgres, lockedID)
	_, second := c.bound(Postgres, lockedToo)
	_, other := c.bound(Postgres, c.made(Postgres, "small"))
	mustExec(t, pg(t, other), "CREATE TABLE t AS SELECT 7 AS n")
	for _, with := range []creds{locked, second} {
		conn := pg(t, with)
		mustExec(t, conn, "CREATE TABLE t (n int)", "BEGIN", "LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
	}
	saved, said := savedExcept(t, dir, keys, lockedID, lockedToo)
	b.Stop()
	_, done := restoredBroker(t, dir, keys, saved)
	if len(said) != 0 || done.Instances != 3 || len(done.Lost) != 2 {
		t.Errorf("reported %q, restored %+v, want 3 instances and that the data of two was not saved", said, done)
	}
	// The second one has less time.
	if got := strings.Join(done.Lost, "\n"); !strings.Contains(got, lockedID) || !strings.Contains(got, lockedToo) ||
		!strings.Contains(got, "for 1s") || !strings.Contains(got, "for 100ms") {
		t.Errorf("not saved: %q", got)
	}
	var n int
	if err := pg(t, other).QueryRow(t.Context(), "SELECT n FROM t").Scan(&n); err != nil || n != 7 {
		t.Errorf("got %d, %v: what is not locked", n, err)
	}
	mustExec(t, pg(t, locked), "CREATE TABLE t (n int)")
}

// dumperFunc is a service with one function.
type dumperFunc func(ctx context.Context, w io.Writer) error

func (f dumperFunc) dump(ctx context.Context, _ *instance, w io.Writer) (dump.Lost, error) {
	return dump.Lost{}, f(ctx, w)
}
func (f dumperFunc) before(*instance, io.Reader) error { return nil }
func (f dumperFunc) after(context.Context, *instance, opener, time.Duration) (dump.Lost, error) {
	return dump.Lost{}, nil
}

type failingWriter struct{ error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.error }

// TestSaveErrors: only what the service causes is an error of the instance.
func TestSaveErrors(t *testing.T) {
	t.Parallel()
	full, dead := errors.New("disk full"), errors.New("interrupted")
	stopped, stop := context.WithCancelCause(t.Context())
	stop(dead)
	write := func(_ context.Context, w io.Writer) error {
		_, err := w.Write([]byte("x"))
		return err
	}
	wait := func(ctx context.Context, _ io.Writer) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		dump dumperFunc
		w    io.Writer
		want error // nil means an UnsavedError
		text string
	}{
		"target":  {t.Context(), write, failingWriter{full}, full, "disk full"},
		"context": {stopped, wait, io.Discard, dead, "interrupted"},
		"service": {t.Context(), func(context.Context, io.Writer) error { return errors.New("no\x1b[2J") }, io.Discard, nil,
			"the data of the redis instance i: no [2J"},
		"stalled": {t.Context(), wait, io.Discard, nil,
			"the data of the redis instance i: nothing was written for 1ms: is a table locked?"},
	} {
		stall := time.Hour
		if name == "stalled" {
			stall = time.Millisecond
		}
		_, err := save(c.ctx, c.dump, &instance{ID: "i", Offering: Redis}, c.w, stall)
		var unsaved *UnsavedError
		if errors.As(err, &unsaved) != (c.want == nil) || c.want != nil && !errors.Is(err, c.want) || err.Error() != c.text {
			t.Errorf("%s: got %v, want %q", name, err, c.text)
		}
	}
}
