package router_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"ingot/internal/platform/edge/router"
)

// hashFront has a route that is hashed, to so many instances that say their
// index.
func hashFront(t *testing.T, n int, balance string) (f *front, set func(indices ...int)) {
	t.Helper()
	f = newFront(t, router.Options{})
	backends := make([]router.Backend, n)
	for i := range backends {
		backends[i] = backend(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				w.Header().Set("X-Index", fmt.Sprint(i))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return
			}
			if r.URL.Path == "/login" {
				w.Header().Set("Set-Cookie", "JSESSIONID=a")
			}
			fmt.Fprint(w, i)
		})
		backends[i].Index = i
	}
	set = func(indices ...int) {
		route := router.Route{GUID: "r", Host: "app.test", Options: map[string]string{"loadbalancing": "hash",
			"hash_header": "x-tenant", "hash_balance": balance}}
		for _, i := range indices {
			route.Backends = append(route.Backends, backends[i])
		}
		f.table.Set(route)
	}
	return f, set
}

// Requests with one value of the header go to one instance, those of many to
// all; without the header they take turns.
func TestHashedRoutes(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f, set := hashFront(t, 3, "")
		set(0, 1, 2)
		get := func(tenant string) string {
			r := f.with("GET", "http://app.test/", header, nil)
			if tenant != "" {
				r.Header.Set("X-Tenant", tenant)
			}
			return text(t, f.do(r).Body)
		}
		seen := map[string]int{}
		for i := range 60 {
			tenant := fmt.Sprint("tenant-", i)
			at := get(tenant)
			seen[at]++
			for range 2 {
				if again := get(tenant); again != at {
					t.Errorf("%s went to %s and %s", tenant, at, again)
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("60 tenants are at %v", seen)
		}
		turns := map[string]int{}
		for range 9 {
			turns[get("")]++
		}
		if turns["0"] != 3 || turns["1"] != 3 || turns["2"] != 3 {
			t.Errorf("without the header: %v", turns)
		}
	})
}

// A session's instance comes before the hashed one, an instance that is dead
// after all others; and the next in the table always is the same.
func TestHashedRoutesWithSessionsAndFailures(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f, set := hashFront(t, 3, "")
		set(0, 1, 2)
		get := func(tenant, cookie string) string {
			r := f.with("GET", "http://app.test/", header, nil)
			r.Header.Set("X-Tenant", tenant)
			if cookie != "" {
				r.Header.Set("Cookie", "JSESSIONID=a; __VCAP_ID__="+cookie)
			}
			return text(t, f.do(r).Body)
		}
		at := get("one", "")
		a := <-f.access
		other := "two"
		for i := 0; get(other, "") == at; i++ {
			other = fmt.Sprint("other-", i)
		}
		if got := get(other, a.Instance); got != at {
			t.Errorf("the session is at %s, the request went to %s", at, got)
		}
		// An instance of the table with an address without a listener.
		m, _ := f.table.Lookup("app.test", "/")
		broken := m.Route
		for i, b := range broken.Backends {
			if fmt.Sprint(b.Index) == at {
				broken.Backends = append([]router.Backend{}, broken.Backends...)
				broken.Backends[i].Address = dead(t).Address
			}
		}
		f.table.Set(broken)
		tenants := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for _, tenant := range tenants {
			first := get(tenant, "")
			for range 3 {
				if again := get(tenant, ""); again != first || first == at {
					t.Errorf("%s went to %s and %s while %s is dead", tenant, first, again, at)
				}
			}
		}
	})
}

// With a balance factor an instance that is much busier than the others gets no
// more, and without one it does.
func TestHashedRoutesInBalance(t *testing.T) {
	t.Parallel()
	for balance, moves := range map[string]bool{"1.2": true, "0": false, "": false} {
		t.Run(balance, func(t *testing.T) {
			t.Parallel()
			eachMode(t, func(t *testing.T, header string) {
				f, set := hashFront(t, 3, balance)
				set(0, 1, 2)
				ask := func(path string) *http.Response {
					r := f.with("GET", "http://app.test"+path, header, nil)
					r.Header.Set("X-Tenant", "heavy")
					return f.do(r)
				}
				first := ask("/hold").Header.Get("X-Index")
				moved := 0
				for range 5 {
					if text(t, ask("/").Body) != first {
						moved++
					}
				}
				if moves && moved != 5 || !moves && moved != 0 {
					t.Errorf("%d of 5 moved", moved)
				}
			})
		})
	}
}

// shares is where values go, by instance.
func shares(instances []string, values int) map[string]string {
	var route router.Route
	route.Options = map[string]string{"loadbalancing": "hash", "hash_header": "X"}
	for _, name := range instances {
		route.Backends = append(route.Backends, router.Backend{Address: name, InstanceGUID: name})
	}
	out, next := map[string]string{}, router.Hashed(route)
	for i := range values {
		value := fmt.Sprint("user-", i)
		out[value] = next(value)
	}
	return out
}

// The shares of instances are nearly equal, and a change of instances moves
// little more than it has to.
func TestHashedShares(t *testing.T) {
	t.Parallel()
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("instance-%d", i))
		}
		return all
	}
	const values = 20000
	var all sync.WaitGroup
	for _, n := range []int{2, 5, 20, 100, 500} {
		all.Go(func() {
			before := shares(names(n), values)
			counts := map[string]int{}
			for _, at := range before {
				counts[at]++
			}
			even := float64(values) / float64(n)
			for name, count := range counts {
				// Values are drawn: three in ten more or less than even, where an
				// instance has many.
				if off := float64(count)/even - 1; n <= 20 && (off > 0.3 || off < -0.3) {
					t.Errorf("%d instances: %s has %d values, %.0f would be even", n, name, count, even)
				}
			}
			if len(counts) != n {
				t.Errorf("%d of %d instances have values", len(counts), n)
			}
			for change, after := range map[string]map[string]string{"one less": shares(names(n)[1:], values),
				"one more": shares(names(n+1), values)} {
				if n == 2 && change == "one less" {
					continue
				}
				moved := 0
				for value, at := range before {
					if now := after[value]; now != at && at != "instance-0" && now != fmt.Sprintf("instance-%d", n) {
						moved++
					}
				}
				if share := float64(moved) / values; share > 0.15 {
					t.Errorf("%d instances, %s: %.0f%% of the values moved without need", n, change, 100*share)
				}
			}
			// The order of the instances does not matter.
			turned := names(n)
			turned[0], turned[n-1] = turned[n-1], turned[0]
			for value, at := range shares(turned, values) {
				if before[value] != at {
					t.Errorf("%s is at %s or at %s", value, before[value], at)
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkHashedNext(b *testing.B) {
	route := router.Route{Options: map[string]string{"loadbalancing": "hash", "hash_header": "X", "hash_balance": "1.25"}}
	for i := range 10 {
		route.Backends = append(route.Backends, router.Backend{Address: fmt.Sprint("a", i), InstanceGUID: fmt.Sprint("i", i)})
	}
	next := router.Hashed(route)
	b.ReportAllocs()
	for b.Loop() {
		next("tenant-17")
	}
}
