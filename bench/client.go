package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var clientSection = Section{
	Name:  "client",
	About: "push of a small static program with our client, wall clock, compared with the real cf client",
	Run:   measureClient,
}

// clientShare is the maximum duration of our client, as a share of cf's.
const clientShare = 1.0 / 3

// The maximum duration of a push, and of another one of the same files, in milliseconds.
const (
	clientGoal    = 350
	unchangedGoal = 200
)

// cfProgram returns the real cf client: CF_BIN, or the one in .tools.
func cfProgram() (string, error) {
	path := os.Getenv("CF_BIN")
	if path == "" {
		path = filepath.Join(".tools", "bin", "cf")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("the cf client is missing (%w); run: make setup-test", err)
	}
	return path, nil
}

// pusher is a client with its configuration directory.
type pusher struct{ name, program, home string }

func (c *pusher) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir, cmd.Env = c.home, c.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", c.name, args[0], err, out)
	}
	return nil
}

func (c *pusher) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "CF_HOME=" + c.home, "TERM=dumb"}
}

func measureClient(ctx context.Context, r *Report) (err error) {
	rounds := 5
	if r.Short {
		rounds = 1
	}
	cf, err := cfProgram()
	if err != nil {
		return err
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	pushers := []*pusher{{name: "ingot", program: r.Binary}, {name: "cf", program: cf}}
	for _, c := range pushers {
		c.home = filepath.Join(r.Scratch, "home-"+c.name)
		if err := os.MkdirAll(c.home, 0o700); err != nil {
			return err
		}
		if err := c.run(ctx, "login", "-a", "http://"+p.API, "-u", "admin", "-p", adminPassword, "-o", "demo", "-s",
			"dev"); err != nil {
			return err
		}
	}
	times, unchanged := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range rounds + 1 {
		for _, c := range pushers {
			took, again, err := clientPush(ctx, p, c, program, round)
			if err != nil {
				return err
			}
			if round > 0 { // the first round is a warm-up
				times[c.name] = append(times[c.name], took)
				unchanged[c.name] = append(unchanged[c.name], again)
			}
		}
	}
	ours, oursWorst := medianAndWorst(times["ingot"])
	peer, peerWorst := medianAndWorst(times["cf"])
	r.Add(Figure{
		Name: "ingot push, median", Value: ours, Unit: "ms", Beside: &Beside{"cf push, median", peer},
		Goal:   Below(peer * clientShare),
		Detail: fmt.Sprintf("worst %s ms, of cf %s ms", number(oursWorst), number(peerWorst)),
	})
	r.Add(Figure{Name: "ingot push, median", Value: ours, Unit: "ms", Beside: &Beside{"limit", clientGoal},
		Goal: Below(clientGoal)})
	same, sameWorst := medianAndWorst(unchanged["ingot"])
	peer, _ = medianAndWorst(unchanged["cf"])
	r.Add(Figure{Name: "the same files again, median", Value: same, Unit: "ms", Beside: &Beside{"cf push, median", peer},
		Goal: Below(unchangedGoal), Detail: "worst " + number(sameWorst) + " ms"})
	p.noteEngine(r)
	r.Note("%d rounds in turn, each of another app whose files the server has not seen, from the start of the client's "+
		"process to its end; by then the app runs and its state is shown.", rounds)
	return nil
}

// clientPush pushes one app twice and deletes it.
func clientPush(ctx context.Context, p *Platform, c *pusher, program string, round int) (took, again time.Duration,
	err error) {
	name := fmt.Sprintf("%s-%d", c.name, round)
	dir := filepath.Join(c.home, name)
	content, err := os.ReadFile(program)
	if err != nil {
		return 0, 0, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, 0, err
	}
	// Bytes after the end of a program do not matter.
	if err := os.WriteFile(filepath.Join(dir, "app"), append(content, name...), //nolint:gosec // an executable
		0o700); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.removeNamed(ctx, name)) }()
	push := func() time.Duration {
		began := time.Now()
		if err == nil {
			err = c.run(ctx, "push", name, "-p", dir, "-b", "binary_buildpack", "-c", "./app", "-m", "64M", "-k", "64M")
		}
		return time.Since(began)
	}
	took = push()
	return took, push(), err
}

// removeNamed deletes the apps with these names, if they exist, and waits until nothing runs.
func (p *Platform) removeNamed(ctx context.Context, names ...string) error {
	var found struct{ Resources []struct{ GUID string } }
	err := p.Do(context.WithoutCancel(ctx), http.MethodGet, "/v3/apps?names="+strings.Join(names, ","), nil, &found)
	for _, app := range found.Resources {
		err = errors.Join(err, p.remove(ctx, app.GUID))
	}
	if err != nil {
		return err
	}
	return p.awaitNone(context.WithoutCancel(ctx))
}
