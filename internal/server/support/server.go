package support

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/datadir"
)

// Server is the process that uses a data directory, as far as this process may look at it.
type Server struct {
	PID  int // 0 if none runs
	Args []string
	// Env is its environment. It has secrets.
	Env map[string]string
	// Unit is its systemd unit, Admin the URL of its admin address.
	Unit, Admin string
}

// Find returns the server of a data directory.
func Find(dataDir string) Server {
	s := Server{PID: datadir.Holder(dataDir), Env: map[string]string{}}
	if s.PID == 0 {
		return s
	}
	args, _ := os.ReadFile(s.proc("cmdline")) // empty if it is not ours
	s.Args = strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
	environ, _ := os.ReadFile(s.proc("environ"))
	for one := range strings.SplitSeq(string(environ), "\x00") {
		if name, value, ok := strings.Cut(one, "="); ok {
			s.Env[name] = value
		}
	}
	groups, _ := os.ReadFile(s.proc("cgroup"))
	s.Unit = unitOf(string(groups))
	var listens struct {
		Admin string `json:"admin"`
		PID   int    `json:"pid"`
	}
	text, err := os.ReadFile(filepath.Join(dataDir, "endpoints.json"))
	if err == nil && json.Unmarshal(text, &listens) == nil && listens.PID == s.PID {
		s.Admin = listens.Admin
	}
	return s
}

func (s Server) proc(name string) string { return "/proc/" + strconv.Itoa(s.PID) + "/" + name }

// unitOf returns the service in the control groups of a process, if systemd runs it.
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		for _, part := range strings.Split(strings.TrimSpace(line), "/") {
			if strings.HasSuffix(part, ".service") && !strings.HasPrefix(part, "user@") {
				return part
			}
		}
	}
	return ""
}

// Parts returns the parts that a running server answers, and its process. token is that of its
// admin address, or empty.
func (s Server) Parts(token string) []Part {
	get := func(path string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) { return s.get(ctx, path, token) }
	}
	return []Part{
		{Name: "server/process.txt", Collect: func(ctx context.Context) ([]byte, error) { return s.process(ctx) }},
		{Name: "server/healthz.json", Collect: get("/healthz")},
		{Name: "server/readyz.json", Collect: get("/readyz?verbose")},
		{Name: "server/metrics.txt", Max: 8 << 20, Collect: get("/metrics")},
		{Name: "server/goroutines.txt", Max: 16 << 20, Collect: get("/debug/pprof/goroutine?debug=2")},
		{Name: "server/heap.pprof", Max: 8 << 20, Binary: true, Collect: get("/debug/pprof/heap")},
	}
}

var errNotRunning = errors.New("no server uses the data directory")

// get asks the server's admin address.
func (s Server) get(ctx context.Context, path, token string) ([]byte, error) {
	switch {
	case s.PID == 0:
		return nil, errNotRunning
	case s.Admin == "":
		return nil, fmt.Errorf("the server (pid %d) has not written its addresses to endpoints.json", s.PID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	const most = 64 << 20
	body, err := io.ReadAll(io.LimitReader(res.Body, most)) // of more than that, a part is enough
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server replied %s", res.Status)
		if res.StatusCode == http.StatusUnauthorized {
			body, err = nil, fmt.Errorf("%w: set INGOT_ADMIN_TOKEN to the token of the admin address", err)
		}
	}
	return body, err
}

// process describes the server's process.
func (s Server) process(ctx context.Context) ([]byte, error) {
	if s.PID == 0 {
		return nil, errNotRunning
	}
	text, err := files(s.proc("status"), s.proc("limits"), s.proc("cgroup"))(ctx)
	open, fdErr := os.ReadDir(s.proc("fd"))
	return fmt.Appendf(text, "open files: %d\nunit: %s\n", len(open), cmp.Or(s.Unit, "none")), errors.Join(err, fdErr)
}

// Variables reads a file of variables, such as /etc/default/ingot, in the format of systemd.
func Variables(path string) map[string]string {
	all := map[string]string{}
	text, _ := os.ReadFile(path) // none if it cannot be read
	for line := range bytes.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
		if ok && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, ";") {
			all[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return all
}
