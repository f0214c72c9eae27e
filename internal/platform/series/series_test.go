package series_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ingot/internal/platform/series"
)

// noon is a time at which blocks of all resolutions begin.
const noon = 1_700_006_400 / (900 * 192) * (900 * 192)

// point returns a point with requests and memory.
func point(requests, memory float64) *series.Point {
	p := series.None()
	p[series.Status2xx], p[series.Memory], p[series.P99] = requests, memory, 0.025
	return &p
}

// near reports whether two values are the same as far as they are stored.
func near(x, y float64) bool { return x == y || math.Abs(x-y) <= math.Abs(y)/256 }

// TestBlock: what was added to a block is there after it was stored, and values keep three digits.
func TestBlock(t *testing.T) {
	t.Parallel()
	for _, r := range series.Resolutions() {
		b := series.NewBlock(r, noon)
		for i := range int64(r.Points) {
			b.Add("", noon+i*r.Step, point(float64(i), 123456789))
			b.Add("web/0", noon+i*r.Step+1, point(0, 0.0123))
		}
		b.Add("", noon-1, point(1, 1))
		b.Add("", noon+r.Span(), point(1, 1))
		got, err := series.Decode(r, noon, b.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got.Scopes()) != "[ web/0]" {
			t.Errorf("scopes %q, want the app and web/0", got.Scopes())
		}
		for i, p := range got.Points("").All {
			if !near(p[series.Status2xx], float64(i)) || !near(p[series.Memory], 123456789) || !near(p[series.P99], 0.025) ||
				p.Has(series.CPU) {
				t.Errorf("point %d of %ds is %v", i, r.Step, p)
			}
		}
		if p := got.Points("web/0").All[3]; p[series.Status2xx] != 0 || !near(p[series.Memory], 0.0123) {
			t.Errorf("point of web/0 is %v", p)
		}
	}
}

// TestBlockCombines: a point that comes twice, because the clock was set back or the server was
// restarted, has both requests and the average memory.
func TestBlockCombines(t *testing.T) {
	t.Parallel()
	b := series.NewBlock(series.Minutes, noon)
	b.Add("", noon, point(3, 100))
	b.Add("", noon+59, point(5, 300))
	if p := b.Points("").All[0]; p[series.Status2xx] != 8 || p[series.Memory] != 200 || b.Missing("", noon+1) ||
		!b.Missing("", noon+60) {
		t.Errorf("point is %v, want 8 requests and 200 bytes", p)
	}
}

// TestDecodeDamaged: bytes that are no block are an error, and never a panic.
func TestDecodeDamaged(t *testing.T) {
	t.Parallel()
	b := series.NewBlock(series.Seconds, noon)
	b.Add("", noon, point(3, 100))
	data := b.Encode()
	for cut := range len(data) - 1 {
		if _, err := series.Decode(series.Seconds, noon, data[:cut]); err == nil {
			t.Errorf("the first %d of %d bytes are a block", cut, len(data))
		}
	}
	if _, err := series.Decode(series.Quarters, noon, data); err == nil {
		t.Error("a block of 60 points is one of 192")
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 2000 {
		changed := append([]byte(nil), data...)
		changed[random.IntN(len(changed))] ^= byte(1 + random.IntN(255))
		_, _ = series.Decode(series.Seconds, noon, changed)
	}
}

// TestBound: an app costs no more than the bound, whatever its tenants do: here all values are noise,
// and it has as many scopes as fit.
func TestBound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	all := 0
	for _, r := range series.Resolutions() {
		b := series.NewBlock(r, noon)
		for scope := range 1000 {
			name := ""
			if scope > 0 {
				name = series.Scope("web", scope)
			}
			for i := range int64(r.Points) {
				var p series.Point
				for f := range p {
					p[f] = math.Exp(random.Float64()*40 - 10)
				}
				b.Add(name, noon+i*r.Step, &p)
			}
			if scope > 64 {
				break
			}
		}
		data := b.Encode()
		if len(data) > r.Bytes {
			t.Errorf("a block of %ds has %d bytes, want at most %d", r.Step, len(data), r.Bytes)
		}
		got, err := series.Decode(r, noon, data)
		if err != nil || got.Missing("", noon) {
			t.Errorf("the app is missing in a block of %ds: %v", r.Step, err)
		}
		all += (int(r.Keep/r.Span()) + 2) * (r.Bytes + series.RowOverhead)
	}
	if all > series.Bound {
		t.Errorf("all blocks of an app have %d bytes, want at most %d", all, series.Bound)
	}
	t.Logf("an app costs at most %d bytes", all)
}

// TestMerge: two servers' requests are added and their levels are not; points that are not stored yet
// in the resolution come from a finer one; gaps stay gaps.
func TestMerge(t *testing.T) {
	t.Parallel()
	minutes, seconds, other := series.NewBlock(series.Minutes, noon), series.NewBlock(series.Seconds, noon+60),
		series.NewBlock(series.Minutes, noon)
	minutes.Add("", noon, point(6, 100))
	for i := range int64(6) {
		seconds.Add("", noon+60+10*i, point(1, 200))
	}
	other.Add("", noon, point(4, 90))
	blocks := []series.Stored{
		{Server: "a", Resolution: series.Minutes.ID, Start: noon, Data: minutes.Encode()},
		{Server: "a", Resolution: series.Seconds.ID, Start: noon, Data: seconds.Encode()},
		{Server: "b", Resolution: series.Minutes.ID, Start: noon, Data: other.Encode()},
		{Server: "c", Resolution: series.Minutes.ID, Start: noon, Data: []byte("damaged")},
	}
	got := series.Merge(blocks, noon, noon+180, 60).Points("")
	if len(got.All) != 3 {
		t.Fatalf("%d points, want 3", len(got.All))
	}
	for i, want := range [][2]float64{{10, 100}, {6, 200}} {
		if p := got.All[i]; !near(p[series.Status2xx], want[0]) || !near(p[series.Memory], want[1]) {
			t.Errorf("point %d is %v, want %v", i, p, want)
		}
	}
	if !got.All[2].Empty() {
		t.Errorf("the last point is %v, want none", got.All[2])
	}
}

// TestFill: after a server was killed, the points that it had not written are made of finer ones, and
// the point of the moment has both parts.
func TestFill(t *testing.T) {
	t.Parallel()
	seconds := series.NewBlock(series.Seconds, noon)
	for i := range int64(9) {
		seconds.Add("", noon+10*i, point(1, 200))
	}
	a := series.Addition{App: "app", Resolution: series.Minutes, Since: noon + 100,
		Points: []series.Timed{{At: noon + 60, Point: *point(2, 200)}}}
	data := a.Apply(noon, nil, []series.Stored{{Resolution: series.Seconds.ID, Start: noon, Data: seconds.Encode()}})
	got, err := series.Decode(series.Minutes, noon, data)
	if err != nil {
		t.Fatal(err)
	}
	all := got.Points("").All
	if all[0][series.Status2xx] != 6 || all[1][series.Status2xx] != 5 || !near(all[1][series.Memory], 200) {
		t.Errorf("requests %v and %v, want 6 and 5", all[0][series.Status2xx], all[1][series.Status2xx])
	}
}

// BenchmarkApply adds a minute to a block of an app with three instances.
func BenchmarkApply(b *testing.B) {
	var old []byte
	for i := range b.N {
		a := series.Addition{App: "app", Resolution: series.Seconds}
		for s := range int64(6) {
			for _, scope := range []string{"", "web", "web/0", "web/1", "web/2"} {
				a.Points = append(a.Points, series.Timed{At: noon + int64(i%10)*60 + s*10, Scope: scope,
					Point: *point(float64(i%50), 1e8+float64(i%1000)*1e5)})
			}
		}
		old = a.Apply(noon, old, nil)
	}
	b.ReportMetric(float64(len(old)), "bytes")
}

// TestAtMost: however the points lie to multiples of the step, there are no more than are asked for, and none is lost.
func TestAtMost(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 2, 7, 36} {
		for start := int64(0); start < 600; start += 10 {
			p := series.Points{Start: start, Step: 10, All: make([]series.Point, length)}
			for i := range p.All {
				p.All[i] = series.None()
				p.All[i][series.Crashes] = 1
			}
			for n := 1; n <= length+1; n++ {
				got, crashes := p.AtMost(n), 0.0
				for i := range got.All {
					crashes += got.All[i][series.Crashes]
				}
				if len(got.All) > n || len(got.All) == 0 || crashes != float64(length) || got.Step%p.Step != 0 ||
					got.At(0) > start || got.At(len(got.All)) < p.At(length) {
					t.Fatalf("%d points from %d in at most %d: %d of %d s from %d, %v crashes", length, start, n, len(got.All),
						got.Step, got.Start, crashes)
				}
			}
		}
	}
	if got := (series.Points{Step: 10}).AtMost(5); len(got.All) != 0 {
		t.Errorf("no points became %v", got)
	}
}

// TestHostilePoints: whatever was measured, and whatever the clock showed, a block stays within its bound, and what is
// read from it are finite numbers that are not negative.
func TestHostilePoints(t *testing.T) {
	t.Parallel()
	const now = int64(1_700_000_000)
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, -1, math.Copysign(0, -1), 1e300, math.MaxInt64}
	times := []int64{now, now - 10, now + 3600, now + 365*86400, 0, -1, math.MinInt64 / 2, math.MaxInt64 / 2}
	for _, scope := range []string{"", "web/0", "\x00\u202e<script>", strings.Repeat("long", 1000)} {
		for _, r := range series.Resolutions() {
			a := series.Addition{App: "app", Resolution: r, Since: now}
			for i, at := range times {
				for k := range values {
					var p series.Point
					for f := range p {
						p[f] = values[(f+i+k)%len(values)]
					}
					a.Points = append(a.Points, series.Timed{At: at, Scope: scope, Point: p})
				}
			}
			var stored []series.Stored
			for _, start := range a.Blocks(now) {
				data := a.Apply(start, []byte("damaged"), nil)
				if len(data) > r.Bytes {
					t.Errorf("%.20q, step %d: a block of %d bytes, want at most %d", scope, r.Step, len(data), r.Bytes)
				}
				stored = append(stored, series.Stored{Server: "one", Resolution: r.ID, Start: start, Data: data})
			}
			if len(stored) == 0 || len(stored) > 2 {
				t.Errorf("%.20q, step %d: %d blocks, want those of now and no others", scope, r.Step, len(stored))
			}
			known := 0
			for _, in := range series.Ranges {
				from, to := in.Window(now + 2000)
				for _, p := range series.Merge(stored, from, to, in.Step).Points(scope).Coarser(7 * in.Step).All {
					for f, v := range p {
						if !math.IsNaN(v) {
							known++
						}
						if math.IsInf(v, 0) || v < 0 {
							t.Fatalf("%.20q, step %d, range %s: field %d is %v", scope, r.Step, in.Name, f, v)
						}
					}
				}
			}
			if known == 0 && scope == "web/0" {
				t.Errorf("step %d: the values that can be stored are lost", r.Step)
			}
		}
	}
}
