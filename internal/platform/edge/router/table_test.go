package router_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/platform/edge/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lookup(t *router.Table, host, path string) string {
	m, ok := t.Lookup(host, path)
	if !ok {
		return ""
	}
	return m.Route.GUID
}

func TestLookup(t *testing.T) {
	t.Parallel()
	var table router.Table
	if got := lookup(&table, "a.example.com", "/"); got != "" {
		t.Errorf("an empty table has %s", got)
	}
	for guid, at := range map[string]string{
		"app": "app.example.com", "api": "app.example.com/API", "deep": "app.example.com/api/v2/x", "wild": "*.example.com",
		"wildpath": "*.example.com/only", "near": "*.sub.example.com", "port": "PORT.example.com:8080",
		"nopath": "pathonly.example.com/p",
		"six":    "[::1]",
	} {
		host, path, _ := strings.Cut(at, "/")
		if path != "" {
			path = "/" + path
		}
		table.Set(router.Route{GUID: guid, Host: host, Path: path})
	}
	for at, want := range map[string]string{
		"app.example.com/":           "app",
		"APP.Example.COM:443/x":      "app",
		"app.example.com./x":         "app",
		"app.example.com/api":        "api",
		"app.example.com/api/":       "api",
		"app.example.com/Api/v1":     "api",
		"app.example.com/apis":       "app",
		"app.example.com/api%2fv2":   "app",
		"app.example.com/api/v2/x":   "deep",
		"app.example.com/api/v2/x/y": "deep",
		"app.example.com/api/v2/xy":  "api",
		"app.example.com//api":       "app",
		"app.example.com/only":       "app",
		"app.example.com/api?x=/y":   "api",
		"other.example.com/":         "wild",
		"other.example.com/only/x":   "wildpath",
		"a.b.example.com/":           "wild",
		"a.sub.example.com/":         "near",
		"a.b.sub.example.com/":       "near",
		"sub.example.com/":           "wild",
		"example.com/":               "",
		"port.example.com/":          "port",
		"pathonly.example.com/p/q":   "nopath",
		"pathonly.example.com/":      "wild",
		"[::1]:8080/":                "six",
		"[::1]/":                     "six",
		"localhost/":                 "",
		"/":                          "",
		"./":                         "",
	} {
		host, path, _ := strings.Cut(at, "/")
		if got := lookup(&table, host, "/"+path); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	if table.Len() != 9 {
		t.Errorf("%d routes", table.Len())
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	var table router.Table
	expect := func(host, path, want string) {
		t.Helper()
		if got := lookup(&table, host, path); got != want {
			t.Errorf("%s%s: %q, want %q", host, path, got, want)
		}
	}
	table.Set(router.Route{GUID: "1", Host: "a"})
	table.Set(router.Route{GUID: "2", Host: "a", Path: "/long/path"})
	table.Set(router.Route{GUID: "1", Host: "b"}) // moves
	expect("a", "/", "")
	expect("a", "/long/path/x", "2")
	expect("b", "/", "1")
	table.Set(router.Route{GUID: "3", Host: "b"}) // replaces it
	table.Remove("1")                             // is no longer there
	expect("b", "/", "3")
	table.Remove("3")
	table.Remove("3")
	table.Remove("never")
	expect("b", "/", "")
	table.Remove("2")
	if table.Len() != 0 {
		t.Errorf("%d routes left", table.Len())
	}
	backends := []router.Backend{{Address: "x:1"}}
	table.Set(router.Route{GUID: "4", Host: "c", Backends: backends})
	backends[0].Address = "changed"
	if m, _ := table.Lookup("c", "/"); m.Route.Backends[0].Address != "x:1" {
		t.Error("the table shares the caller's memory")
	}
	table.Replace([]router.Route{{GUID: "5", Host: "d"}, {GUID: "6", Host: "d"}, {GUID: "7", Host: "e"},
		{GUID: "7", Host: "f"}})
	for host, want := range map[string]string{"c": "", "d": "6", "e": "", "f": "7"} {
		expect(host, "/", want)
	}
	if table.Len() != 2 {
		t.Errorf("%d routes after Replace", table.Len())
	}
	table.Remove("5")
	expect("d", "/", "6")
	table.Remove("6")
	expect("d", "/", "")
}

// naive is the rule in its plainest form.
func naive(routes map[string]router.Route, host, path string) string {
	host = router.CanonicalHost(host)
	path, _, _ = strings.Cut(path, "?")
	path = strings.ToLower(strings.TrimRight(path, "/"))
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	names := []string{host}
	for rest := host; strings.Contains(rest, "."); {
		_, rest, _ = strings.Cut(rest, ".")
		names = append(names, "*."+rest)
	}
	for _, name := range names {
		best, guid := -1, ""
		for _, r := range routes {
			p := strings.ToLower(r.Path)
			if strings.ToLower(r.Host) == name && (path == p || strings.HasPrefix(path, p+"/")) && len(p) > best {
				best, guid = len(p), r.GUID
			}
		}
		if best >= 0 {
			return guid
		}
	}
	return ""
}

func FuzzLookup(f *testing.F) {
	f.Add(uint64(1), "a.b.c", "/x/y")
	f.Add(uint64(2), "B.c:80", "/x//y/?z")
	f.Add(uint64(3), "*.c", "x")
	f.Add(uint64(4), "..", "//")
	f.Fuzz(func(t *testing.T, seed uint64, host, path string) {
		if len(host) > 300 || len(path) > 300 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 0))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		var table router.Table
		routes := map[string]router.Route{}
		key := func(r router.Route) string { return strings.ToLower(r.Host + r.Path) }
		for range 30 {
			route := router.Route{
				GUID: strconv.Itoa(r.IntN(12)),
				Host: pick("a", "*", "A.b", "b.c") + pick("", ".c", ".b.c"),
				Path: pick("", "/x", "/x/y", "/X/z", "/xy"),
			}
			if r.IntN(5) == 0 {
				delete(routes, route.GUID)
				table.Remove(route.GUID)
			} else {
				for guid, other := range routes {
					if key(other) == key(route) {
						delete(routes, guid)
					}
				}
				routes[route.GUID] = route
				table.Set(route)
			}
			for _, at := range [][2]string{{host, path}, {pick("a", "a.b", "x.b.c", "x.c", "b.c.b.c"),
				pick("/", "/x", "/x/y/z", "/X/", "/xy/")}} {
				if got, want := lookup(&table, at[0], at[1]), naive(routes, at[0], at[1]); got != want {
					t.Fatalf("%q %q: %q, want %q in %+v", at[0], at[1], got, want, routes)
				}
			}
		}
		if table.Len() != len(routes) {
			t.Fatalf("%d routes, want %d", table.Len(), len(routes))
		}
	})
}

// Readers see each route whole, and unchanged routes always.
func TestChangesUnderLoad(t *testing.T) {
	t.Parallel()
	var table router.Table
	for i := range 100 {
		table.Set(router.Route{GUID: "fixed" + strconv.Itoa(i), Host: fmt.Sprintf("fixed%d.test", i)})
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				i := n % 100
				if got := lookup(&table, fmt.Sprintf("fixed%d.test", i), "/x"); got != "fixed"+strconv.Itoa(i) {
					t.Errorf("fixed%d is %q", i, got)
				}
				if m, ok := table.Lookup(fmt.Sprintf("moving%d.test", i), "/"); ok {
					if want := fmt.Sprintf("moving%d.test", i); m.Route.Host != want || m.Route.Backends[0].Address != want+
						m.Route.Options["round"] {
						t.Errorf("route is %+v, want host and backend %s of one round", m.Route, want)
					}
				}
			}
		})
	}
	for n := range 10000 {
		host := fmt.Sprintf("moving%d.test", n%100)
		round := strconv.Itoa(n)
		table.Set(router.Route{GUID: host, Host: host, Options: map[string]string{"round": round},
			Backends: []router.Backend{{Address: host + round}}})
		if n%3 == 0 {
			table.Remove(host)
		}
	}
	stop.Store(true)
	all.Wait()
}

// A change of few among many routes copies little of the table, and none when
// nothing is new.
func TestUpdateAmongMany(t *testing.T) {
	t.Parallel()
	tab := fill(20000)
	b := router.Backend{Address: "10.0.0.1:1", AppGUID: "app", InstanceGUID: "i"}
	one := router.Route{GUID: "new", Host: "new.test", Backends: []router.Backend{b}}
	two := router.Route{GUID: "new", Host: "moved.test", Backends: []router.Backend{b}}
	for _, change := range []struct {
		name string
		most int
		do   func()
	}{
		{"added", 2, func() { tab.Set(one) }},
		{"set as it was", 0, func() { tab.Update([]router.Route{one}, []string{"nobody"}) }},
		{"moved", 4, func() { tab.Set(two) }},
		{"exchanged", 6, func() {
			tab.Update([]router.Route{{GUID: "heir", Host: "moved.test"}, {GUID: "other", Host: "other.test"}}, []string{"new"})
		}},
		{"removed", 4, func() { tab.Update(nil, []string{"heir", "other"}) }},
	} {
		if n := router.Copied(tab, change.do); n > change.most {
			t.Errorf("%s: %d shards were copied", change.name, n)
		}
	}
	if tab.Len() != 20000 || router.States(tab) != 0 && lookup(tab, "moved.test", "/") != "" {
		t.Errorf("%d routes are left", tab.Len())
	}
}

// Routes that replace others in one update neither remove nor keep
// them, in whatever order they come.
func TestUpdateTakesOver(t *testing.T) {
	t.Parallel()
	a, b := router.Route{GUID: "a", Host: "a.test"}, router.Route{GUID: "b", Host: "b.test"}
	swapped := []router.Route{{GUID: "a", Host: "b.test"}, {GUID: "b", Host: "a.test"}}
	for range 2 {
		var tab router.Table
		tab.Update([]router.Route{a, b}, nil)
		tab.Update(swapped, nil)
		if lookup(&tab, "a.test", "/") != "b" || lookup(&tab, "b.test", "/") != "a" || tab.Len() != 2 {
			t.Errorf("a.test leads to %q, b.test to %q, of %d routes", lookup(&tab, "a.test", "/"),
				lookup(&tab, "b.test", "/"), tab.Len())
		}
		tab.Update([]router.Route{{GUID: "heir", Host: "a.test"}}, []string{"a", "b"})
		if lookup(&tab, "a.test", "/") != "heir" || tab.Len() != 1 {
			t.Errorf("a.test leads to %q, of %d routes", lookup(&tab, "a.test", "/"), tab.Len())
		}
		swapped[0], swapped[1] = swapped[1], swapped[0]
	}
}

func fill(n int) *router.Table {
	routes := make([]router.Route, n)
	for i := range routes {
		routes[i] = router.Route{GUID: strconv.Itoa(i), Host: fmt.Sprintf("app-%d.apps.example.com", i),
			Backends: []router.Backend{{Address: "10.0.0.1:8080"}}}
	}
	var table router.Table
	table.Replace(routes)
	return &table
}

func BenchmarkLookup(b *testing.B) {
	table := fill(100000)
	for i := range 5 {
		table.Set(router.Route{GUID: "p" + strconv.Itoa(i), Host: "app-7.apps.example.com",
			Path: strings.Repeat("/seg", i+1)})
	}
	for name, at := range map[string][2]string{
		"host":     {"app-4711.apps.example.com", "/a/b/c/d/e"},
		"path":     {"app-7.apps.example.com", "/seg/seg/seg/other/page"},
		"port":     {"App-4711.apps.example.com:8080", "/"},
		"unknown":  {"nobody.apps.example.com", "/"},
		"longpath": {"app-7.apps.example.com", strings.Repeat("/", 8000)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Lookup(at[0], at[1])
			}
		})
	}
}

func BenchmarkSet100k(b *testing.B) {
	table := fill(100000)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		i := n * 7919 % 100000
		table.Set(router.Route{GUID: strconv.Itoa(i), Host: fmt.Sprintf("app-%d.apps.example.com", i),
			Backends: []router.Backend{{Address: "10.0.0.2:8080"}}})
	}
}

func BenchmarkAddRemove100k(b *testing.B) {
	table := fill(100000)
	b.ReportAllocs()
	for b.Loop() {
		table.Set(router.Route{GUID: "new", Host: "new.apps.example.com"})
		table.Remove("new")
	}
}

func BenchmarkReplace100k(b *testing.B) {
	for b.Loop() {
		fill(100000)
	}
}
