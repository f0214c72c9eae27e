// Java-debug-sidecar makes the Java process beside it tell what its threads do.
//
//	GET /threaddump   sends signal 3 (SIGQUIT) to it: the Java machine writes a
//	                  thread dump to its standard output, the app's log
//
// DEBUG_SIDECAR_PORT is where it listens, 21090 without it. It listens on every
// address, because the router has to reach it, and asks nobody who he is: put a
// route service with authentication before its route.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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
		return sample.Serve(ctx, (&debugger{Proc: "/proc", Instance: os.Getenv(instanceVariable)}).handler(), l)
	})
}

// instanceVariable names the app instance, in the environment of all its
// processes.
const instanceVariable = "CF_INSTANCE_GUID"

type debugger struct {
	// Proc is where the system shows its processes.
	Proc string
	// Instance is our app instance. In a container there is no other; where
	// apps are plain processes, those of others are seen as well, and are not
	// ours to signal.
	Instance string
}

func (d *debugger) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /threaddump", d.threadDump)
	return mux
}

func (d *debugger) threadDump(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // asks what there is, and changes nothing
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
		http.Error(w, "no Java process runs in this instance: is this the sidecar of a Java app, and has it started?", http.StatusServiceUnavailable)
		return
	}
	for _, id := range found {
		if err := syscall.Kill(id, syscall.SIGQUIT); err != nil {
			http.Error(w, fmt.Sprintf("process %d cannot be signalled: %v", id, err), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "Sent signal 3 (SIGQUIT) to the Java process %d. Its thread dump is in the app's log: cf logs APP --recent\n", id)
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
		// A process can end between two looks, and others' are not for us to read.
		name, err := os.ReadFile(filepath.Join(d.Proc, e.Name(), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != "java" {
			continue
		}
		instance, err := variable(filepath.Join(d.Proc, e.Name(), "environ"), instanceVariable)
		if err == nil && instance == d.Instance {
			found = append(found, id)
		}
	}
	return found, nil
}

// variable reads one of a process's environment.
func variable(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if len(text) == 0 {
		return "", errors.New("the process has no environment any more")
	}
	for pair := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(pair, []byte(name+"=")); ok {
			return string(value), nil
		}
	}
	return "", nil
}
