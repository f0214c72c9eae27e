package acme

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"
)

// memory is a Store in memory.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
	locks map[string]string
}

func newMemory() *memory { return &memory{files: map[string][]byte{}, locks: map[string]string{}} }

func (m *memory) File(_ context.Context, name string) ([]byte, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.files[name]
	if !ok {
		return nil, time.Time{}, fs.ErrNotExist
	}
	return value, time.Now(), nil
}

func (m *memory) WriteFile(_ context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = value
	return nil
}

func (m *memory) DeleteFiles(ctx context.Context, name string) error {
	names, _ := m.FileNames(ctx, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range append(names, name) {
		delete(m.files, one)
	}
	return nil
}

func (m *memory) FileNames(_ context.Context, dir string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.files {
		if dir == "" || strings.HasPrefix(name, dir+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *memory) TryLock(_ context.Context, name, holder string, _ time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other, ok := m.locks[name]; ok && other != holder {
		return false, nil
	}
	m.locks[name] = holder
	return true, nil
}

func (m *memory) Unlock(_ context.Context, name, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] == holder {
		delete(m.locks, name)
	}
	return nil
}

// TestStorage lists directories and files as certmagic needs them.
func TestStorage(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), &storage{files: newMemory(), log: slog.New(slog.DiscardHandler), held: map[string]heldLock{}}
	for _, name := range []string{"certificates/ca/a.org/a.org.crt", "certificates/ca/a.org/a.org.key",
		"certificates/ca/b.org/b.org.crt", "last"} {
		if err := s.Store(ctx, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir       string
		recursive bool
		want      string
	}{
		{"certificates/ca", false, "[certificates/ca/a.org certificates/ca/b.org]"},
		{"certificates/ca/a.org", false, "[certificates/ca/a.org/a.org.crt certificates/ca/a.org/a.org.key]"},
		{"certificates", true,
			"[certificates/ca/a.org/a.org.crt certificates/ca/a.org/a.org.key certificates/ca/b.org/b.org.crt]"},
		{"", false, "[certificates last]"},
	} {
		if got, err := s.List(ctx, c.dir, c.recursive); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%q, recursive %t: %v, %v, want %s", c.dir, c.recursive, got, err, c.want)
		}
	}
	if _, err := s.List(ctx, "none", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
	info, err := s.Stat(ctx, "certificates/ca")
	if err != nil || info.IsTerminal {
		t.Errorf("a directory: %+v, %v", info, err)
	}
	if info, err = s.Stat(ctx, "last"); err != nil || !info.IsTerminal || info.Size != 4 {
		t.Errorf("a file: %+v, %v", info, err)
	}
	if err := s.Delete(ctx, "certificates/ca/a.org"); err != nil || s.Exists(ctx, "certificates/ca/a.org") ||
		!s.Exists(ctx, "certificates/ca") {
		t.Errorf("after a delete: %v", err)
	}
}

// TestLock lets one caller after another have a lock, and gives up when it is canceled.
func TestLock(t *testing.T) {
	t.Parallel()
	shared := newMemory()
	open := func() *storage {
		return &storage{files: shared, log: slog.New(slog.DiscardHandler), held: map[string]heldLock{}}
	}
	one, two := open(), open()
	if err := one.Lock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for _, s := range []*storage{one, two} {
		if err := s.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second lock: %v, want it to wait", err)
		}
	}
	done := make(chan error)
	go func() { done <- two.Lock(t.Context(), "x") }()
	canceled, stop := context.WithCancel(t.Context())
	stop()
	if err := one.Unlock(canceled, "x"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(one.Unlock(t.Context(), "x"), two.Unlock(t.Context(), "x")); err != nil ||
		len(shared.locks) > 0 {
		t.Errorf("locks are left: %v, %v", shared.locks, err)
	}
}

// TestLimits limits orders per owner and together, and repeats failed ones later and later.
func TestLimits(t *testing.T) {
	t.Parallel()
	l, now := newLimits(), time.Now()
	take := func(owner string) (n int) {
		for n < totalBurst+1 && l.take(owner, now) == nil {
			n++
		}
		return n
	}
	if n := take("org"); n != ownerBurst {
		t.Errorf("an owner ordered %d at once, want %d", n, ownerBurst)
	}
	now = now.Add(ownerEvery)
	if n := take("org"); n != 1 {
		t.Errorf("later an owner ordered %d, want 1", n)
	}
	together := 0
	for i := range 20 {
		together += take(fmt.Sprint("org ", i))
	}
	if together != totalBurst-ownerBurst-1+int(ownerEvery/totalEvery) {
		t.Errorf("others ordered %d together", together)
	}
	if err := l.take("", now); err != nil {
		t.Errorf("the server's own names: %v", err)
	}
	want := failedFirst
	for range 12 {
		if got := l.failed("x", true, now); got != want {
			t.Errorf("the next try is after %s, want %s", got, want)
		}
		if l.recently("x", now.Add(want-1)) == nil || l.recently("x", now.Add(want)) != nil {
			t.Errorf("after a failure with a pause of %s it is not repeated at the right time", want)
		}
		want = min(2*want, failedLongest)
	}
	if got := l.failed("y", false, now); got != loadAgain {
		t.Errorf("after a failed load the next is after %s", got)
	}
	l.succeeded("x")
	if err := l.recently("x", now); err != nil {
		t.Error(err)
	}
	for i := range maxRemembered {
		l.failed(fmt.Sprint("host ", i), true, now)
	}
	l.failed("one more", true, now.Add(failedFirst+time.Second))
	if len(l.failures) > 2 {
		t.Errorf("%d failures are remembered after they ended", len(l.failures))
	}
}

// TestLog writes what certmagic reports to the operator's log.
func TestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newLogger(slog.New(slog.NewTextHandler(&out, nil))).Named("maintenance").With(zap.String("identifier", "a.org"))
	log.Info("every step")
	log.Warn("every step")
	log.Error("tls-alpn challenge")
	log.Error("could not get certificate", zap.Error(errors.New("refused")))
	log.Named("acme_client").Error("every step")
	got := out.String()
	for _, want := range []string{
		`level=WARN msg="certificates: could not get certificate" part="certmagic maintenance" error=refused identifier=a.org`} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s: %s", want, got)
		}
	}
	if strings.Contains(got, "every step") || strings.Contains(got, "tls-alpn") {
		t.Errorf("the log has steps: %s", got)
	}
}

// TestHook passes the program's failure on with its output.
func TestHook(t *testing.T) {
	t.Parallel()
	c := acme.Challenge{Type: acme.ChallengeTypeDNS01, KeyAuthorization: "token",
		Identifier: acme.Identifier{Type: "dns", Value: "example.org"}}
	h := hook{"/bin/echo", slog.New(slog.DiscardHandler)}
	if err := errors.Join(h.Present(t.Context(), c), h.CleanUp(t.Context(), c)); err != nil {
		t.Error(err)
	}
	h.program = "/bin/false"
	if err := h.Present(t.Context(), c); err == nil ||
		!strings.Contains(err.Error(), "/bin/false present _acme-challenge.example.org: exit status 1") {
		t.Errorf("got %v", err)
	}
}

// TestRelease keeps certificates while it is unknown whether they are needed.
func TestRelease(t *testing.T) {
	t.Parallel()
	var answer error
	m := New(Options{Store: newMemory(), Log: slog.New(slog.DiscardHandler), Decide: func(_ context.Context,
		name string) (Grant, error) {
		return Grant{Subject: name}, answer
	}})
	m.work = t.Context()
	m.build()
	defer m.cache.Stop()
	for _, test := range []struct {
		answer error
		left   int
	}{{nil, 1}, {errors.New("the database is away"), 1}, {Refusal("no route"), 0}} {
		answer = test.answer
		m.managed["app.example.com"] = managed{name: "app.example.com"}
		m.release(t.Context())
		if len(m.managed) != test.left {
			t.Errorf("after %v there are %d certificates, want %d", answer, len(m.managed), test.left)
		}
	}
}
