package broker

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/stdlib"

	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
)

// victimVariable is an environment variable with a directory; it makes the test
// binary run a broker there, to be killed. The key is in another variable.
const (
	victimVariable = "INGOT_BROKER_TEST_VICTIM"
	keyVariable    = "INGOT_BROKER_TEST_KEY"
)

func victim() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	keys, err := seal.Parse(os.Getenv(keyVariable))
	fail(err)
	level := slog.LevelError
	if os.Getenv("INGOT_SOAK") == "1" {
		level = slog.LevelWarn
	}
	b, err := New(Config{
		Dir: os.Getenv(victimVariable), Keys: keys,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	})
	fail(err)
	fail(b.Start(context.Background()))
	fmt.Fprintln(os.Stdout, b.URL())
	_, _ = io.Copy(io.Discard, os.Stdin) // until stdin is closed
	b.Stop()
	os.Exit(0)
}

// world is a platform whose broker and databases are killed.
type world struct {
	t    *testing.T
	dir  string
	key  string
	keys *seal.Keyring
	s    secret
	said testLog

	mu    sync.RWMutex
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// boot starts a broker.
func (w *world) boot() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+w.dir, keyVariable+"="+w.key)
	cmd.Stderr = &w.said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("no broker: %v, %v\n%s", err, cmd.Wait(), &w.said)
	}
	w.url, w.cmd, w.stdin = strings.TrimSpace(line), cmd, stdin
}

// reboot kills the broker and starts another. Its servers are left over.
func (w *world) reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	kill(w.t, w.cmd.Process.Pid)
	_ = w.cmd.Wait() // killed
	w.boot()
}

// killServer kills the servers of a kind that run.
func (w *world) killServer(name string) {
	pattern := "pid"
	if name == Postgres {
		pattern = "data/postmaster.pid"
	}
	files, _ := filepath.Glob(filepath.Join(w.dir, own, "*", pattern))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		first, _, _ := strings.Cut(string(text), "\n")
		if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && pid > 1 {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may be down already
			}
		}
	}
}

// call sends a request to the current broker. Status 0 means no response.
func (w *world) call(method, path string, body any) (int, map[string]any) {
	w.mu.RLock()
	c := &client{t: w.t, url: w.url, user: Username, password: w.s.password("api")}
	w.mu.RUnlock()
	status, answer, err := c.try(method, path, body)
	if err != nil {
		return 0, nil
	}
	return status, answer
}

// insist repeats a request until the status is one of these.
func (w *world) insist(method, path string, body any, want ...int) (answer map[string]any) {
	var status int
	var last map[string]any
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if status, answer = w.call(method, path, body); slices.Contains(want, status) {
			return answer
		} else if status != 0 {
			last = answer
		}
		if time.Now().After(deadline) {
			w.t.Errorf("%s %s stays at %d, %v; want %v\n%s", method, path, status, last, want, &w.said)
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
}

// lives creates, binds, unbinds and deletes instances until ctx is done, as an
// impatient platform: it deletes what it got no good response for.
func (w *world) lives(ctx context.Context, name string, count *atomic.Int64) {
	for ctx.Err() == nil {
		id, bid := uuid.NewString(), uuid.NewString()
		path := "/v2/service_instances/" + id
		undo := func() {
			w.insist(http.MethodDelete, path+query(name, "small"), nil, http.StatusOK, http.StatusGone)
			w.insist(http.MethodDelete, path+query(name, "small"), nil, http.StatusGone)
			count.Add(1)
		}
		incomplete := ""
		if rand.IntN(2) == 0 {
			incomplete = "?accepts_incomplete=true"
		}
		status, _ := w.call(http.MethodPut, path+incomplete, instanceBody(name, "small"))
		if status == http.StatusAccepted {
			if !w.settled(ctx, path) {
				undo()
				continue
			}
		} else if status != http.StatusCreated {
			undo()
			continue
		}
		status, answer := w.call(http.MethodPut, bindingPath(id, bid), bindBody(name, "small", "a"))
		if status == 0 { // a platform may also repeat the request
			answer = w.insist(http.MethodPut, bindingPath(id, bid), bindBody(name, "small", "a"), http.StatusCreated,
				http.StatusOK)
			status = http.StatusOK
		}
		if status == http.StatusCreated || status == http.StatusOK {
			readCreds(w.t, answer)
			if rand.IntN(3) > 0 {
				w.insist(http.MethodDelete, bindingPath(id, bid)+query(name, "small"), nil, http.StatusOK, http.StatusGone)
			}
		}
		undo()
	}
}

// settled polls an operation until it ends; no instance stays in progress.
func (w *world) settled(ctx context.Context, path string) bool {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		status, answer := w.call(http.MethodGet, path+"/last_operation", nil)
		switch {
		case status == http.StatusOK && answer["state"] != "in progress":
			return answer["state"] == "succeeded"
		case status == http.StatusGone:
			return false
		case ctx.Err() != nil:
			return false
		case time.Now().After(deadline):
			w.t.Errorf("stuck in progress: %v", answer)
			return false
		}
		<-time.After(20 * time.Millisecond)
	}
}

// keeper is an instance that is never deleted, with a client that writes to it.
type keeper struct {
	name, id, driver, dsn string
	creds                 creds
	acked                 []int
}

func (w *world) keep(name string) *keeper {
	k := &keeper{name: name, id: uuid.NewString()}
	w.insist(http.MethodPut, "/v2/service_instances/"+k.id, instanceBody(name, "small"), http.StatusCreated, http.StatusOK)
	k.creds = readCreds(w.t, w.insist(http.MethodPut, bindingPath(k.id, "b"), bindBody(name, "small", "a"),
		http.StatusCreated))
	k.driver, k.dsn = "pgx", k.creds.URI
	if name == MySQL {
		k.driver, k.dsn = "mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", k.creds.Username, k.creds.Password, k.creds.address(),
			k.creds.Database)
	}
	return k
}

// write inserts numbers until ctx is done, and records which were committed.
func (k *keeper) write(ctx context.Context, t *testing.T) {
	db, err := sql.Open(k.driver, k.dsn)
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	testkit.Eventually(t, "the table is there", func() bool {
		_, err := db.ExecContext(context.Background(), "CREATE TABLE IF NOT EXISTS kept (n BIGINT)")
		return err == nil
	})
	for n := 0; ctx.Err() == nil; n++ {
		limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if _, err := db.ExecContext(limit, "INSERT INTO kept VALUES ("+strconv.Itoa(n)+")"); err == nil {
			k.acked = append(k.acked, n)
		}
		cancel()
		<-time.After(5 * time.Millisecond)
	}
}

func (k *keeper) check(t *testing.T) {
	db, err := sql.Open(k.driver, k.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[int]bool{}
	rows, err := db.QueryContext(context.Background(), "SELECT n FROM kept")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		found[n] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, n := range k.acked {
		if !found[n] {
			lost++
		}
	}
	if lost > 0 || len(k.acked) == 0 {
		t.Errorf("%s: %d of %d committed rows are lost", k.name, lost, len(k.acked))
	}
	t.Logf("%s: %d committed rows are there", k.name, len(k.acked))
}

// Kill -9 of the broker or a database at any time leaves nothing over and loses
// no data.
func TestSoakKills(t *testing.T) {
	t.Parallel()
	kills := 6
	if os.Getenv("INGOT_SOAK") == "1" {
		kills = 100
	}
	w := &world{t: t, dir: tempDir(t), key: seal.NewKey()}
	var err error
	if w.keys, err = seal.Parse(w.key); err != nil {
		t.Fatal(err)
	}
	probe, err := New(Config{Dir: w.dir, Keys: w.keys})
	if err != nil {
		t.Fatal(err)
	}
	need(t, probe, Postgres, MySQL)
	w.s = probe.secret
	names := []string{Postgres, MySQL}
	if probe.Missing()[Redis] == nil {
		names = append(names, Redis)
	}
	w.boot()
	t.Cleanup(func() {
		w.stdin.Close()
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("the broker: %v\n%s", err, &w.said)
		}
		_ = Release(w.dir) // groups of instances whose creation was killed, as `ingot down` does
	})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var keepers []*keeper
	var count atomic.Int64
	for _, name := range names {
		if name != Redis {
			k := w.keep(name)
			keepers = append(keepers, k)
			work.Go(func() { k.write(ctx, t) })
		}
		work.Go(func() { w.lives(ctx, name, &count) })
	}
	for n := range kills {
		<-time.After(time.Duration(rand.IntN(600)) * time.Millisecond)
		switch n % 3 {
		case 0:
			w.reboot()
		case 1:
			w.killServer(Postgres)
		case 2:
			w.killServer(MySQL)
		}
		// Sometimes let everything run undisturbed.
		if n%4 == 3 {
			began := count.Load()
			testkit.Eventually(t, "lives go on", func() bool { return count.Load() > began+1 })
		}
	}
	cancel()
	work.Wait()
	t.Logf("%d lives, %d kills", count.Load(), kills)
	w.nothingIsLeft(keepers)
	for _, k := range keepers {
		k.check(t)
		w.insist(http.MethodDelete, "/v2/service_instances/"+k.id+query(k.name, "small"), nil, http.StatusOK)
	}
	w.nothingIsLeft(nil)
}

// nothingIsLeft compares the servers and the records with what is expected.
func (w *world) nothingIsLeft(keepers []*keeper) {
	w.t.Helper()
	var want []string
	for _, k := range keepers {
		i := &instance{ID: k.id}
		want = append(want, k.name+" "+i.database(), k.name+" "+i.owner(), k.name+" "+i.user(&binding{ID: "b"}))
	}
	slices.Sort(want)
	var got []string
	testkit.Eventually(w.t, "the servers can be asked", func() bool {
		var err error
		got, err = w.onServers(keepers)
		return err == nil
	})
	if !slices.Equal(got, want) {
		w.t.Errorf("databases and users %v, want %v", got, want)
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, "broker", "instances"))
	if err != nil || len(entries) != len(keepers) {
		w.t.Errorf("records: %v, %v", entries, err)
	}
	for _, e := range entries {
		var i instance
		content, err := os.ReadFile(filepath.Join(w.dir, "broker", "instances", e.Name()))
		if err != nil || json.Unmarshal(content, &i) != nil || i.unfinished() {
			w.t.Errorf("unfinished: %s, %v", content, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, Redis)); len(left) > 0 {
		w.t.Errorf("left of Redis: %v", left)
	}
	dirs, _ := os.ReadDir(filepath.Join(w.dir, own))
	for _, e := range dirs {
		name := strings.TrimSuffix(e.Name(), ".disk")
		if !strings.HasPrefix(name, "template-") &&
			!slices.ContainsFunc(keepers, func(k *keeper) bool { return (&instance{ID: k.id}).hash() == name }) {
			w.t.Errorf("left of a server: %s", e.Name())
		}
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line, _ := os.ReadFile(file)
		if strings.Contains(string(line), filepath.Join(w.dir, Redis)) || len(keepers) == 0 &&
			strings.Contains(string(line), filepath.Join(w.dir, own)) {
			w.t.Errorf("a server is left: %s", line)
		}
	}
}

func listNames(db *sql.DB, query string) (names []string, err error) {
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// onServers lists the databases and users on the servers of the keepers.
func (w *world) onServers(keepers []*keeper) (found []string, err error) {
	for _, k := range keepers {
		var i instance
		content, readErr := os.ReadFile(filepath.Join(w.dir, "broker", "instances", (&instance{ID: k.id}).hash()+".json"))
		if err := errors.Join(readErr, json.Unmarshal(content, &i)); err != nil {
			return nil, err
		}
		b, newErr := New(Config{Dir: w.dir, Keys: w.keys, ReadOnly: true})
		if newErr != nil {
			return nil, newErr
		}
		database, remoteErr := b.own.remote(&i)
		if remoteErr != nil {
			return nil, remoteErr
		}
		var pool *sql.DB
		queries := []string{
			"SELECT datname FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')",
			"SELECT rolname FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%' AND rolname <> '" + adminUser + "'",
		}
		switch db := database.(type) {
		case *postgres:
			pool = stdlib.OpenDB(*db.config)
		case *mariadb:
			pool, queries = sql.OpenDB(db.connector), []string{
				"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('mysql', 'sys', " +
					"'performance_schema', 'information_schema')",
				"SELECT user FROM mysql.user WHERE user NOT IN ('mariadb.sys', 'mysql', '" + adminUser + "')",
			}
		}
		for _, query := range queries {
			names, listErr := listNames(pool, query)
			err = errors.Join(err, listErr)
			for _, name := range names {
				found = append(found, k.name+" "+name)
			}
		}
		pool.Close()
	}
	slices.Sort(found)
	return found, err
}
