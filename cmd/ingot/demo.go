package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/run"
	"ingot/internal/system"
)

// demoOptions are the flags of `ingot demo`.
type demoOptions struct {
	DataDir string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"The data directory of the running server"`
	Samples string `long:"samples" value-name:"DIR" default:"samples" description:"The sample apps, built with 'make samples'"`
	Keep    bool   `long:"keep" description:"Leave everything there at the end"`
}

// A step of the tour is a command of the client, or a request to an app.
type step struct {
	say string
	// run are the words of a command.
	run []string
	// get is an address without the port: "sidecar-app.apps.localhost/config".
	get string
	// want has to be in what comes back.
	want string
	// undo takes the step back.
	undo []string
}

// steps are the stories that the program tells.
func steps(samples, domain string) []step {
	app := func(name string) string { return filepath.Join(samples, name, "manifest.yml") }
	return []step{
		{say: "An app and its sidecar, in one container.", run: []string{"push", "-f", app("sidecar-app")}, want: "config-server", undo: []string{"delete", "sidecar-app", "-f", "-r"}},
		{say: "The app asks the sidecar on localhost.", get: "sidecar-app.apps." + domain + "/config", want: "scope"},
		{say: "They are codependent: without the sidecar the instance ends, and is started again.", run: []string{"ssh", "sidecar-app", "-c", "pkill -9 config-sidecar"}},
		{get: "sidecar-app.apps." + domain + "/config", want: "scope"},
		{say: "The record names who ended it.", run: []string{"logs", "sidecar-app", "--recent", "--no-router"}, want: "SIDECAR/CONFIG-SERVER: Exited with status 137"},
		{say: "What can be bound to apps?", run: []string{"marketplace"}},
		{say: "A database.", run: []string{"create-service", "postgres", "small", "demo-db", "--wait"}, undo: []string{"delete-service", "demo-db", "-f"}},
		{say: "An app that uses it.", run: []string{"push", "-f", app("database-app"), "--no-start"}, undo: []string{"delete", "database-app", "-f", "-r"}},
		{run: []string{"bind-service", "database-app", "demo-db"}, want: "OK"},
		{run: []string{"start", "database-app"}, want: "running"},
		{say: "Before there is a table, it says what is wrong.", get: "database-app.apps." + domain + "/users", want: "trace"},
		{get: "database-app.apps." + domain + "/migrate", want: "migrated"},
		{get: "database-app.apps." + domain + "/users/add/2", want: "users added"},
		{get: "database-app.apps." + domain + "/users", want: `"count": 2`},
		{say: "A notification: its kind is registered first.", run: []string{"notifications", "register", "demo-kind", "--source", "The demo", "--description", "Something to look at"}, want: "OK"},
		{run: []string{"notifications", "send", "demo-kind", "--email", "you@example.com", "--subject", "Hello from Ingot", "--text", "This is what a notification looks like."}, want: "queued"},
	}
}

// demo runs the tour on a running server, and cleans up.
func (p *process) demo(o demoOptions) error {
	if o.DataDir == "" {
		o.DataDir = p.defaultDataDir(serverName)
	}
	content, err := os.ReadFile(filepath.Join(o.DataDir, "endpoints.json"))
	if err != nil {
		return fmt.Errorf("no server runs in %s: start one with 'ingot up --demo' in another terminal", o.DataDir)
	}
	t := &tour{process: p, options: o}
	if err := json.Unmarshal(content, &t.at); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(o.DataDir, "endpoints.json"), err)
	}
	if _, err := os.Stat(filepath.Join(o.Samples, "sidecar-app", "bin", "sidecar-app")); err != nil {
		return fmt.Errorf("the samples are not built in %s: run 'make samples' in the folder of the source, or say where they are with --samples", o.Samples)
	}
	if t.program, err = os.Executable(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run.Go("signals", func() {
		select {
		case <-p.signals:
			cancel()
		case <-ctx.Done():
		}
	})
	return t.walk(ctx)
}

type tour struct {
	*process
	options demoOptions
	at      system.Endpoints
	program string
	undo    [][]string
}

// walk takes the steps, and takes back those that were taken, also when one
// fails or the user has seen enough.
func (t *tour) walk(ctx context.Context) (err error) {
	defer func() {
		if t.options.Keep {
			return
		}
		fmt.Fprint(t.out, "\n# Clean up.\n")
		for i := len(t.undo) - 1; i >= 0; i-- {
			if _, undone := t.command(context.WithoutCancel(ctx), t.undo[i]); undone != nil {
				err = errors.Join(err, undone)
			}
		}
	}()
	for _, s := range steps(t.options.Samples, t.at.Domain) {
		if s.say != "" {
			fmt.Fprintf(t.out, "\n# %s\n", s.say)
		}
		if s.undo != nil {
			t.undo = append(t.undo, s.undo)
		}
		var said string
		if s.get != "" {
			said, err = t.request(ctx, s.get)
		} else {
			said, err = t.command(ctx, s.run)
		}
		if err == nil && !strings.Contains(said, s.want) {
			err = fmt.Errorf("this should have said %q", s.want)
		}
		if err != nil {
			return fmt.Errorf("the tour ends here: %w", err)
		}
	}
	fmt.Fprintf(t.out, "\nThe mail is on %s/mailbox\n", t.at.Admin)
	return nil
}

// command runs the client, as the user would.
func (t *tour) command(ctx context.Context, words []string) (string, error) {
	shown := make([]string, len(words))
	for i, w := range words {
		if shown[i] = w; strings.ContainsAny(w, " '") {
			shown[i] = shellQuote(w)
		}
	}
	fmt.Fprintf(t.out, "$ ingot %s\n", strings.Join(shown, " "))
	cmd := exec.CommandContext(ctx, t.program, words...) //nolint:gosec // it is this program
	cmd.Env = append(os.Environ(), "INGOT_DATA_DIR="+t.options.DataDir)
	var said strings.Builder
	cmd.Stdout = io.MultiWriter(t.out, &said)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(words) > 0 && words[0] == "ssh" {
		err = nil // a command that ends its instance may go with it
	}
	if err != nil {
		err = fmt.Errorf("ingot %s: %w", words[0], err)
	}
	return said.String(), err
}

// appPatience is how long an app may take to be there, or there again.
const appPatience = time.Minute

// request asks an app, as curl would. While it is being started it is asked
// again.
func (t *tour) request(ctx context.Context, address string) (string, error) {
	api, err := url.Parse(t.at.API)
	if err != nil {
		return "", err
	}
	host, path, _ := strings.Cut(address, "/")
	fmt.Fprintf(t.out, "$ curl http://%s:%s/%s\n", host, api.Port(), path)
	ctx, cancel := context.WithTimeout(ctx, appPatience)
	defer cancel()
	for {
		status, body, err := get(ctx, t.at.API+"/"+path, host+":"+api.Port())
		if err != nil || status != http.StatusNotFound && status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
			fmt.Fprintln(t.out, strings.TrimRight(body, "\n"))
			return body, err
		}
		select {
		case <-ctx.Done():
			return body, fmt.Errorf("%s answers %d: %s", host, status, body)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get asks a server for a host of its own: the system need not know the name.
func get(ctx context.Context, address, host string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	client := &http.Client{Timeout: appPatience}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(content), err
}
