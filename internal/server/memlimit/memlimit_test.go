package memlimit

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestLimitFollowsWhatIsInUse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		u    usage
		want int64
	}{
		{usage{live: 10, other: 8}, 40},
		{usage{live: 16, other: 8}, 40},
		{usage{live: 30, other: 8}, 48},
		{usage{live: 1000, other: 80}, 2060},
	} {
		if got := limit(40, test.u); got != test.want {
			t.Errorf("limit of %+v: %d, want %d", test.u, got, test.want)
		}
	}
}

func TestShrinking(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before, now int64
		want        bool
	}{
		{0, 5, false},   // not worth it
		{0, 100, true},  // grew
		{100, 50, true}, // halved: another may halve it again
		{50, 48, false},
		{50, 52, false},
		{50, 9, false},
	} {
		if got := shrinking(40, test.before, test.now); got != test.want {
			t.Errorf("stacks of %d after %d: another collection %v, want %v", test.now, test.before, got, test.want)
		}
	}
}

//nolint:paralleltest // the bound is the process's, so this runs alone
func TestKeepAdjustsAfterEachCollection(t *testing.T) {
	const small = 1 << 20 // less than any process has
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	started, stop := Keep(small)
	defer stop()
	started()
	if now := debug.SetGCPercent(100); now != 100 {
		t.Errorf("after the start the heap may grow by %d %%, want 100", now)
	}
	before := debug.SetMemoryLimit(-1)
	if before <= small || before == math.MaxInt64 {
		t.Fatalf("the bound is %d: not by what is in use", before)
	}
	much := make([]byte, 64<<20)
	for debug.SetMemoryLimit(-1) < 2*int64(len(much)) { // the finalizer comes some time after a collection
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(much)
	stop()
	runtime.GC()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("after the end the bound is %d", got)
	}
}

func TestMeasureAddsUp(t *testing.T) {
	t.Parallel()
	runtime.GC()
	u := measure()
	if u.live <= 0 || u.other <= 0 || u.other > 1<<30 {
		t.Errorf("usage is %+v, want live memory and less than 1 GiB of other", u)
	}
}
