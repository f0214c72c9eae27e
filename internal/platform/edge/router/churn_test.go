package router_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"ingot/internal/platform/edge/router"
)

// TestSoakRoutesMoveUnderLoad adds, moves and removes routes while clients ask:
//
//   - "here" leads to an app all the time, from one instance to the next, and
//     each instance ends as soon as it is out of the table and idle;
//   - "there" changes between two apps and nothing.
//
// No request for "here" fails, and no request ever reaches another app than one
// that its name had.
func TestSoakRoutesMoveUnderLoad(t *testing.T) {
	t.Parallel()
	changes := 1000
	if os.Getenv("INGOT_SOAK") == "1" {
		changes = 10000
	}
	f := newFront(t, router.Options{})
	instance := func(app string, n int) (router.Backend, *httptest.Server) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, app) }))
		return router.Backend{Address: s.Listener.Addr().String(), AppGUID: app, InstanceGUID: app + strconv.Itoa(n),
			Index: n % 2}, s
	}
	set := func(guid, host string, backends ...router.Backend) {
		f.table.Set(router.Route{GUID: guid, Host: host, Backends: backends})
	}
	one, server := instance("one", 0)
	defer func() { server.Close() }()
	two, other := instance("two", 0)
	defer other.Close()
	set("one", "here.test", one)

	var stop atomic.Bool
	var served [2]atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for !stop.Load() {
				if res, body := f.get("http://here.test/"); res.StatusCode != http.StatusOK || body != "one" {
					t.Errorf("here: %d %q", res.StatusCode, body)
					return
				}
				served[0].Add(1)
				res, body := f.get("http://there.test/")
				switch {
				case res.StatusCode == http.StatusOK && (body == "one" || body == "two"):
					served[1].Add(1)
				case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusServiceUnavailable:
				case res.StatusCode == http.StatusBadGateway: // its only instance ended, and the route went away meanwhile
				default:
					t.Errorf("there: %d %q", res.StatusCode, body)
					return
				}
			}
		})
	}
	for n := 1; n <= changes && !t.Failed(); n++ {
		next, fresh := one, server
		if n%10 == 0 {
			next, fresh = instance("one", n)
		}
		set("one", "here.test", next)
		switch n % 5 {
		case 0:
			set("there", "there.test", next) // added
		case 1:
			set("there", "there.test", two) // moved to another app
		case 2:
			set("there", "elsewhere.test", two) // moved to another name
		case 3:
			set("there", "there.test")
		case 4:
			f.table.Remove("there")
		}
		if fresh != server {
			// As the controller does: out of the table first, then it may end
			// when its requests have.
			server.Config.SetKeepAlivesEnabled(false)
			server.Close()
			one, server = next, fresh
		}
		for before := served[0].Load(); n%50 == 0 && served[0].Load() < before+10 && !t.Failed(); {
			<-f.access
		}
	}
	stop.Store(true)
	all.Wait()
	if served[0].Load() == 0 || served[1].Load() == 0 {
		t.Errorf("nothing was served: %d, %d", served[0].Load(), served[1].Load())
	}
}
