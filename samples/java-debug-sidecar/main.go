// Java-debug-sidecar requests thread dumps from the Java process beside it.
//
//	GET /threaddump   sends signal 3 (SIGQUIT): the Java virtual machine writes a
//	                  thread dump to its standard output, the app's log
//
// DEBUG_SIDECAR_PORT is its port, 21090 by default. It listens on all addresses,
// because the router must reach it, and has no authentication: bind a route
// service with authentication to its route.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+cmp.Or(os.Getenv("DEBUG_SIDECAR_PORT"), "21090"))
		if err != nil {
			return fmt.Errorf("java-debug-sidecar: %w (DEBUG_SIDECAR_PORT says where to listen)", err)
		}
		return sample.Serve(ctx, (&debugger{Proc: "/proc", Instance: os.Getenv(sample.InstanceVariable)}).handler(), l)
	})
}

type debugger struct {
	// Proc is the proc file system.
	Proc string
	// Instance is the guid of this app instance. In a container there is no
	// other; with plain processes, those of other apps are visible and must not
	// be signaled.
	Instance string
}

func (d *debugger) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /threaddump", d.threadDump)
	return mux
}

func (d *debugger) threadDump(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // HEAD must not change anything
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	found, err := d.find()
	switch {
	case err != nil:
		http.Error(w, "the processes of this instance cannot be listed: "+err.Error(), http.StatusInternalServerError)
		return
	case len(found) == 0:
		http.Error(w, "no Java process runs in this instance: is this the sidecar of a Java app, and has it started?",
			http.StatusServiceUnavailable)
		return
	}
	for _, id := range found {
		if err := syscall.Kill(id, syscall.SIGQUIT); err != nil {
			http.Error(w, fmt.Sprintf("process %d cannot be signalled: %v", id, err), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "Sent signal 3 (SIGQUIT) to the Java process %d. Its thread dump is in the app's log: cf logs APP "+
			"--recent\n", id)
	}
}

// find returns the ids of the Java processes of this instance.
func (d *debugger) find() ([]int, error) {
	entries, err := os.ReadDir(d.Proc)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process can exit in the meantime, and other users' processes are not
		// readable.
		name, err := os.ReadFile(filepath.Join(d.Proc, e.Name(), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != "java" {
			continue
		}
		instance, err := sample.ProcessVariable(filepath.Join(d.Proc, e.Name(), "environ"), sample.InstanceVariable)
		if err == nil && instance == d.Instance {
			found = append(found, id)
		}
	}
	return found, nil
}
