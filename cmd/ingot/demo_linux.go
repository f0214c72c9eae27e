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

	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
	"ingot/internal/system"
)

// demoOptions are the flags of `ingot demo`.
type demoOptions struct {
	DataDir string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the running server"`
	Samples string `long:"samples" value-name:"DIR" default:"samples" description:"Directory of the sample apps, built with 'make samples'"`
	Keep    bool   `long:"keep" description:"Keep the apps and services at the end"`
}

// The tour has its own org, so that it neither depends on the target nor
// touches existing apps.
const (
	tourOrg   = "ingot-tour"
	tourSpace = "tour"
)

// A step of the tour is a command of the client, or a request to an app.
type step struct {
	say string
	// run are the arguments of a client command.
	run []string
	// get is an address without the port: "sidecar-app.apps.localhost/config".
	get string
	// want must be part of the output.
	want string
	// undo is the command that undoes the step.
	undo []string
}

// steps returns the steps of the tour.
func steps(samples, domain string) []step {
	manifest := func(name string) string { return filepath.Join(samples, name, "manifest.yml") }
	const app, data = "tour-sidecar-app", "tour-database-app" // names that do not clash with the user's routes
	at := func(name, path string) string { return name + ".apps." + domain + path }
	return []step{
		{say: "An org and a space for this tour.", run: []string{"create-org", tourOrg},
			undo: []string{"delete-org", tourOrg, "-f"}},
		{run: []string{"create-space", tourSpace, "-o", tourOrg}},
		{run: []string{"target", "-o", tourOrg, "-s", tourSpace}, want: tourSpace},
		{say: "An app and its sidecar run in one container.", run: []string{"push", app, "-f", manifest("sidecar-app")},
			want: "config-server", undo: []string{"delete", app, "-f", "-r"}},
		{say: "The app requests its configuration from the sidecar on localhost.", get: at(app, "/config"), want: "scope"},
		{say: "When the sidecar dies, the instance is stopped and restarted.", run: []string{"ssh", app, "-c",
			"pkill -9 config-sidecar"}},
		{get: at(app, "/config"), want: "scope"},
		{say: "The log shows the reason.", run: []string{"logs", app, "--recent", "--no-router"},
			want: "SIDECAR/CONFIG-SERVER: Exited with status 137"},
		{say: "Services for apps.", run: []string{"marketplace"}},
		{say: "A database.", run: []string{"create-service", "postgres", "small", "demo-db", "--wait"},
			undo: []string{"delete-service", "demo-db", "-f", "--wait"}},
		{say: "An app that uses the database.", run: []string{"push", data, "-f", manifest("database-app"), "--no-start"},
			undo: []string{"delete", data, "-f", "-r"}},
		{run: []string{"bind-service", data, "demo-db"}, want: "OK"},
		{run: []string{"start", data}, want: "running"},
		{say: "Without its table the app responds with an error.", get: at(data, "/users"), want: "trace"},
		{get: at(data, "/migrate"), want: "migrated"},
		{get: at(data, "/users/add/2"), want: "users added"},
		{get: at(data, "/users"), want: `"count": 2`},
		{say: "A notification: register its kind first.", run: []string{"notifications", "register", "demo-kind", "--source",
			"The demo", "--description", "Something to look at"}, want: "OK"},
		{run: []string{"notifications", "send", "demo-kind", "--email", "you@example.com", "--subject", "Hello from Ingot",
			"--text", "This is what a notification looks like."}, want: "queued"},
	}
}

// demo runs the tour on a running server and cleans up.
func (p *process) demo(o demoOptions) error {
	if o.DataDir == "" {
		o.DataDir = p.defaultDataDir(serverName)
	}
	content, err := os.ReadFile(filepath.Join(o.DataDir, "endpoints.json"))
	if err != nil {
		return fmt.Errorf("no server is running in %s: start one with 'ingot up --demo' in another terminal", o.DataDir)
	}
	t := &tour{process: p, options: o}
	if err := json.Unmarshal(content, &t.at); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(o.DataDir, "endpoints.json"), err)
	}
	if _, err := os.Stat(filepath.Join(o.Samples, "sidecar-app", "bin", "sidecar-app")); err != nil {
		return fmt.Errorf("the samples are not built in %s: run 'make samples' in the source folder, or pass their folder "+
			"with --samples", o.Samples)
	}
	if t.program, err = os.Executable(); err != nil {
		return err
	}
	if t.home, t.context, err = p.tourHome(o.DataDir); err != nil {
		return err
	}
	defer os.RemoveAll(t.home)
	ctx, stop := p.untilSignal()
	defer stop()
	return t.walk(ctx)
}

// tourHome creates a client home for the tour, so that the user's own target
// stays unchanged. On a server whose administrator cannot log in with a password,
// it copies the user's logins, and context names the one to use.
func (p *process) tourHome(dataDir string) (home, context string, err error) {
	if home, err = os.MkdirTemp("", "ingot-tour-"); err != nil {
		return "", "", err
	}
	if _, err := os.Stat(filepath.Join(dataDir, "secrets", "admin-password")); err == nil {
		return home, "", nil
	}
	login, err := os.ReadFile(config.Open(p.getenv).Path())
	if err != nil {
		return home, "", nil //nolint:nilerr // the client reports that a login is needed
	}
	return home, p.getenv(core.ContextVariable), os.WriteFile(filepath.Join(home, "config.json"), login, 0o600)
}

type tour struct {
	*process
	options demoOptions
	home    string // home directory of the client
	context string
	at      system.Endpoints
	program string
	undo    [][]string
}

// walk runs the steps and then undoes those that ran, also when one fails or the
// user interrupts.
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
			err = fmt.Errorf("the output should contain %q", s.want)
		}
		if err != nil {
			return fmt.Errorf("the tour failed: %w", err)
		}
	}
	fmt.Fprintf(t.out, "\nThe mail is in the mailbox: %s/mailbox\n", t.at.Admin)
	if t.options.Keep {
		fmt.Fprintf(t.out, "\nThe apps are kept. To use them: 'ingot target -o %s -s %s'. To delete everything: 'ingot "+
			"delete-org %s'.\n", tourOrg, tourSpace, tourOrg)
	}
	return nil
}

// command runs the client.
func (t *tour) command(ctx context.Context, words []string) (string, error) {
	shown := make([]string, len(words))
	for i, w := range words {
		if shown[i] = w; strings.ContainsAny(w, " '") {
			shown[i] = shellQuote(w)
		}
	}
	fmt.Fprintf(t.out, "$ ingot %s\n", strings.Join(shown, " "))
	cmd := exec.CommandContext(ctx, t.program, words...) //nolint:gosec // it is this program
	cmd.Env = append(os.Environ(), "INGOT_DATA_DIR="+t.options.DataDir, "INGOT_HOME="+t.home,
		core.ContextVariable+"="+t.context)
	var said strings.Builder
	cmd.Stdout = io.MultiWriter(t.out, &said)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(words) > 0 && words[0] == "ssh" {
		err = nil // a command that kills its instance may be killed with it
	}
	if err != nil {
		err = fmt.Errorf("ingot %s: %w", words[0], err)
	}
	return said.String(), err
}

// appPatience is how long an app may take to start or restart.
const appPatience = time.Minute

// request sends a GET request to an app. While the app is starting it retries.
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
		if err != nil || status != http.StatusNotFound && status != http.StatusBadGateway &&
			status != http.StatusServiceUnavailable {
			fmt.Fprintln(t.out, strings.TrimRight(body, "\n"))
			return body, err
		}
		select {
		case <-ctx.Done():
			return body, fmt.Errorf("%s responded with %d: %s", host, status, body)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get sends a request to a server with a Host header, so that the name need not
// be resolvable.
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
	content, err := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // a part of a page is enough to show
	return res.StatusCode, string(content), err
}
