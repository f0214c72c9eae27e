package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// stalled is an engine with any instance. Those whose names begin with "stuck" take no files
// until the attempt is canceled; those with "broken" panic.
type stalled struct {
	certified
	mu      sync.Mutex
	now     map[string]int // attempts in progress, by instance
	begun   map[string]int
	atOnce  int
	highest int
}

func newStalled() *stalled {
	return &stalled{certified: certified{taken: map[string]map[string][]byte{}}, now: map[string]int{},
		begun: map[string]int{}}
}

func (*stalled) Get(_ context.Context, id string) (engine.Instance, error) {
	return engine.Instance{ID: id, Running: true}, nil
}

func (e *stalled) Exec(ctx context.Context, id string, _ engine.ExecRequest) (engine.Process, error) {
	e.count(id, 1)
	defer e.count(id, -1)
	switch {
	case strings.HasPrefix(id, "stuck"):
		<-ctx.Done()
		return nil, ctx.Err()
	case strings.HasPrefix(id, "broken"):
		panic("broken")
	case strings.HasPrefix(id, "refusing"):
		return nil, errors.New("refused")
	}
	return &taker{engine: &e.certified, id: id}, nil
}

func (e *stalled) count(id string, by int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now[id] += by
	e.atOnce += by
	e.begun[id] += max(by, 0)
	e.highest = max(e.highest, e.atOnce)
}

// tried returns how many attempts are in progress, and how many were begun for an instance.
func (e *stalled) tried(id string) (atOnce, begun int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.atOnce, e.begun[id]
}

// turns is a world with rotations that are told by an engine that stalls.
type turns struct {
	*world
	engine *stalled
	*Rotations
}

func newTurns(t *testing.T) *turns {
	t.Helper()
	w, e := newWorld(t, 1), newStalled()
	r := NewRotations(Config{Store: w.store, Platform: w.platform, Engine: e, Replace: "/bin/ingot-sftp",
		Log: slog.New(slog.DiscardHandler)})
	r.first, r.later = time.Hour, time.Hour
	return &turns{world: w, engine: e, Rotations: r}
}

// rotation stores a rotation of an app, which is made if it does not exist.
func (k *turns) rotation(app, space string, waits ...string) *platform.CredentialRotation {
	k.Helper()
	row := &platform.CredentialRotation{AppGUID: app, SpaceGUID: space, State: platform.RotationApplying,
		Method: platform.ByFiles, Waits: waits}
	k.update(func(tx platform.Tx) error {
		n, err := tx.Apps().Count(platform.Where("guid", app))
		if err == nil && n == 0 {
			err = tx.Apps().Insert(&platform.App{Resource: platform.Resource{GUID: app}, Name: app, SpaceGUID: "space",
				State: platform.AppStarted})
		}
		if err != nil {
			return err
		}
		return tx.CredentialRotations().Insert(row)
	})
	return row
}

func (k *turns) waits(row *platform.CredentialRotation) []string {
	k.Helper()
	var now *platform.CredentialRotation
	err := k.world.store.View(k.Context(), func(tx platform.Tx) (err error) {
		now, err = tx.CredentialRotations().Get(row.GUID)
		return err
	})
	if err != nil {
		k.Fatal(err)
	}
	return now.Waits
}

// delivered waits until all instances of a rotation were told.
func (k *turns) delivered(row *platform.CredentialRotation) {
	k.Helper()
	testkit.Eventually(k.T, "the instances of app "+row.AppGUID+" have their files",
		func() bool { return len(k.waits(row)) == 0 })
}

// TestStuckAppHoldsOneAttempt has many rotations of one app whose instances do not answer: it
// holds one attempt, and another app is served.
func TestStuckAppHoldsOneAttempt(t *testing.T) {
	t.Parallel()
	k := newTurns(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); k.attempts.Wait() }()
	for range 30 {
		k.rotation("hostile", "theirs", "stuck-1", "stuck-2")
	}
	k.look(ctx, time.Now())
	testkit.Eventually(t, "the app is tried", func() bool { n, _ := k.engine.tried(""); return n == 1 })
	good := k.rotation("good", "ours", "good-1", "good-2")
	k.look(ctx, time.Now())
	k.delivered(good)
	if n, _ := k.engine.tried(""); n != 1 {
		t.Errorf("%d attempts at once for one app", n)
	}
}

// TestFailedAppsLeaveRoom has more apps that failed before than attempts, all of them stuck: an
// app that was never tried is served at once.
func TestFailedAppsLeaveRoom(t *testing.T) {
	t.Parallel()
	k := newTurns(t)
	k.first = time.Millisecond
	for n := range 40 {
		k.rotation(fmt.Sprint("hostile-", n), "theirs", fmt.Sprint("stuck-", n))
	}
	k.look(t.Context(), time.Now())
	k.attempts.Wait()
	if k.engine.highest > rotationsAtOnce || len(k.failed) != 40 {
		t.Errorf("%d attempts at once, %d apps failed", k.engine.highest, len(k.failed))
	}
	k.first = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); k.attempts.Wait() }()
	later := time.Now().Add(time.Hour)
	k.look(ctx, later)
	testkit.Eventually(t, "some are tried again", func() bool { n, _ := k.engine.tried(""); return n == rotationRetries })
	good := k.rotation("good", "ours", "good-1")
	k.look(ctx, later)
	k.delivered(good)
	if n, _ := k.engine.tried(""); n != rotationRetries {
		t.Errorf("%d apps that failed are tried at once, want %d", n, rotationRetries)
	}
}

// TestOrderOfTurns sees who is next: apps that have not failed, and of these the ones of spaces
// with less trouble.
func TestOrderOfTurns(t *testing.T) {
	t.Parallel()
	k := newTurns(t)
	of := func(app, space string) *platform.CredentialRotation {
		return &platform.CredentialRotation{AppGUID: app, SpaceGUID: space}
	}
	now := time.Now()
	k.Rotations.rows = []*platform.CredentialRotation{of("busy", "a"), of("failed", "c"), of("failed twice", "b"),
		of("paused", "b"), of("new", "a"), of("new too", "c"), of("quiet", "d")}
	k.busy["busy"] = rotationAttempt{space: "a"}
	k.busy["busy too"] = rotationAttempt{space: "a"}
	k.failed["failed"] = rotationFailure{space: "c", count: 1}
	k.failed["failed twice"] = rotationFailure{space: "b", count: 2}
	k.failed["paused"] = rotationFailure{space: "b", count: 1, notUntil: now.Add(time.Second)}
	var got []string
	for i := k.next(now); i >= 0; i = k.next(now) {
		got = append(got, k.Rotations.rows[i].AppGUID)
		k.Rotations.rows = append(k.Rotations.rows[:i], k.Rotations.rows[i+1:]...)
	}
	if want := "quiet, new too, new, failed, failed twice"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestBrokenAttempt panics, and one refuses: the other instances of the app are told, and the
// app is tried again.
func TestBrokenAttempt(t *testing.T) {
	t.Parallel()
	k := newTurns(t)
	broken, mixed := k.rotation("broken", "ours", "broken-1"), k.rotation("mixed", "ours", "refusing-1", "good-1",
		"refusing-2", "good-2")
	for n := range 3 {
		k.look(t.Context(), time.Now().Add(time.Duration(n)*time.Hour))
		k.attempts.Wait()
	}
	if _, n := k.engine.tried("broken-1"); n != 3 || len(k.waits(broken)) != 1 {
		t.Errorf("the one that panics was tried %d times, want 3", n)
	}
	if left := k.waits(mixed); strings.Join(left, " ") != "refusing-1 refusing-2" {
		t.Errorf("left are %v", left)
	}
	if len(k.busy) != 0 {
		t.Errorf("busy is %v", k.busy)
	}
}

func TestRotationsHonourTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	row := &platform.CredentialRotation{AppGUID: "app", SpaceGUID: "space", State: platform.RotationApplying,
		Method: platform.ByFiles, Waits: []string{"stuck-1"}}
	w.update(func(tx platform.Tx) error { return tx.CredentialRotations().Insert(row) })
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		return NewRotations(Config{Store: w.store, Platform: w.platform, Engine: newStalled(), Replace: "/bin/ingot-sftp",
			Log: slog.New(slog.DiscardHandler)})
	})
}

// TestToldRotationGoesOn wakes the job of a rotation when its last instance has its files.
func TestToldRotationGoesOn(t *testing.T) {
	t.Parallel()
	k := newTurns(t)
	job := k.waitsFor("good-1")
	k.update(func(tx platform.Tx) error {
		row, err := tx.CredentialRotations().Get(job.ResourceGUID)
		if err != nil {
			return err
		}
		row.Method, row.Waits = platform.ByFiles, []string{"good-1", "refusing-1"}
		return tx.CredentialRotations().Update(row)
	})
	k.look(t.Context(), time.Now())
	k.attempts.Wait()
	if k.isDue(job) {
		t.Error("the rotation goes on before all instances have their files")
	}
	if err := k.told(t.Context(), job.ResourceGUID, "refusing-1"); err != nil || !k.isDue(job) {
		t.Errorf("got %v, the job is due: %t", err, k.isDue(job))
	}
}
