package apps

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// loaded are the templates of apps.
var loaded = sync.OnceValue(func() *page.Templates { return page.Load(Files) })

// world is a console of apps with a fake gateway.
type world struct {
	*pagetest.World
	pages   *pages
	gateway *fakeGateway
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{gateway: newFakeGateway(t)}
	w.World = pagetest.New(t, func(o page.Options) *page.Console {
		o.Gateway = w.gateway.connect
		core := page.New(o, loaded(), nil)
		w.pages = &pages{Console: core}
		core.Add(w.pages.part())
		return core
	})
	w.API.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"links":{"app_ssh":{"meta":{"host_key_fingerprint":%q}}}}`,
			strings.TrimPrefix(ssh.FingerprintSHA256(w.gateway.key), "SHA256:"))
	})
	w.API.HandleFunc("GET /v3/apps/the-app/processes/web",
		func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"guid":"the-process"}`) })
	w.API.HandleFunc("GET /oauth/authorize", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-token" || r.URL.Query().Get("client_id") != "ssh-proxy" {
			t.Errorf("a code was asked for with %v", r.Header)
		}
		http.Redirect(rw, r, "https://nowhere.example/?code="+testCode, http.StatusFound)
	})
	return w
}
