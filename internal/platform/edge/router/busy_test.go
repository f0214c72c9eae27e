package router_test

import (
	"fmt"
	"net/http"
	"testing"

	"ingot/internal/platform/edge/router"
)

// TestBusy sees a request until it ends, also when its route is gone.
func TestBusy(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	arrived, leave := make(chan struct{}), make(chan struct{})
	b := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-leave
		fmt.Fprint(w, "done")
	})
	b.InstanceGUID = "it"
	f.table.Set(router.Route{GUID: "r", Host: "busy.test", Backends: []router.Backend{b}})
	if f.proxy.Busy("it") || f.proxy.Busy("another") {
		t.Error("busy before the first request")
	}
	ended := make(chan string)
	go func() {
		_, body := f.get("http://busy.test/")
		ended <- body
	}()
	<-arrived
	f.table.Remove("r")
	if !f.proxy.Busy("it") {
		t.Error("not busy with a request")
	}
	close(leave)
	if body := <-ended; body != "done" {
		t.Errorf("the answer is %q", body)
	}
	<-f.access // the client has the answer before the router counts it
	if f.proxy.Busy("it") {
		t.Error("busy after the last request")
	}
}
