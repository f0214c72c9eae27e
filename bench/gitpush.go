package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

var gitSection = Section{
	Name: "git",
	About: "git push of a small change to a running app, from the start of git to the first answer of the new version, " +
		"beside ingot push of the same change",
	Run: measureGit,
}

// gitShare is the maximum duration of git push, as a multiple of that of ingot push.
const gitShare = 1.5

// gitFiles are the files of the app that do not change.
var gitFiles = map[string]string{
	"Staticfile":   "",
	"manifest.yml": "applications:\n- memory: 64M\n  disk_quota: 64M\n",
	"style.css":    "body { margin: 2em }\n",
	"about.html":   "<p>A small app</p>\n",
}

func measureGit(ctx context.Context, r *Report) (err error) {
	rounds := 7
	if r.Short {
		rounds = 2
	}
	if _, err := exec.LookPath("git"); err != nil {
		r.Note("not measured: git is not installed.")
		return nil
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	c := &pusher{name: "ingot", program: r.Binary, home: filepath.Join(r.Scratch, "home-git")}
	if err := os.MkdirAll(c.home, 0o700); err != nil {
		return err
	}
	if err := c.run(ctx, "login", "-a", "http://"+p.API, "-u", "admin", "-p", adminPassword, "-o", "demo", "-s",
		"dev"); err != nil {
		return err
	}
	ways := []*gitWay{{host: "changed-by-ingot"}, {host: "changed-by-git", git: true}}
	defer func() { err = errors.Join(err, p.removeNamed(ctx, ways[0].host, ways[1].host)) }()
	for _, w := range ways {
		w.p, w.client, w.dir = p, c, filepath.Join(r.Scratch, w.host)
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	for round := range rounds + 1 {
		for i := range ways {
			w := ways[(round+i)%len(ways)] // the order changes
			took, err := w.change(ctx, round)
			if err != nil {
				return err
			}
			if round > 0 { // the first round is a warm-up
				w.times = append(w.times, took)
			}
		}
	}
	peer, peerWorst := medianAndWorst(ways[0].times)
	median, worst := medianAndWorst(ways[1].times)
	r.Add(Figure{
		Name: "a change by git push, median", Value: median, Unit: "ms", Beside: &Beside{"ingot push, median", peer},
		Goal:   Below(peer * gitShare),
		Detail: fmt.Sprintf("worst %s ms, of ingot push %s ms", number(worst), number(peerWorst)),
	})
	p.noteEngine(r)
	r.Note("%d rounds in turn, order swapped, of two static apps with %d files of which one changes. ingot push stops "+
		"the app and starts it again; git push replaces it by a rolling deployment, without downtime, in which the new "+
		"version is ready for 250 ms before it gets requests.", rounds, len(gitFiles)+1)
	return nil
}

// gitWay is an app that is changed in one way.
type gitWay struct {
	p         *Platform
	client    *pusher
	dir, host string
	git       bool
	times     []time.Duration
}

// begin writes the app and deploys it for the first time.
func (w *gitWay) begin(ctx context.Context) error {
	for name, text := range gitFiles {
		if err := writeFile(filepath.Join(w.dir, name), text); err != nil {
			return err
		}
	}
	if w.git {
		helper := "!" + w.client.program + " git-credential"
		for _, args := range [][]string{
			{"init", "-q", "-b", "main"},
			{"config", "credential.helper", helper},
			{"config", "user.name", "bench"},
			{"config", "user.email", "bench@example.com"},
			{"remote", "add", "ingot", "http://" + w.p.API + "/git/demo/dev/" + w.host},
		} {
			if err := w.run(ctx, args...); err != nil {
				return err
			}
		}
	}
	_, err := w.change(ctx, -1)
	return err
}

// change deploys a version and returns the time until it answers.
func (w *gitWay) change(ctx context.Context, version int) (time.Duration, error) {
	text := fmt.Sprintf("version %d.", version)
	if err := writeFile(filepath.Join(w.dir, "index.html"), text); err != nil {
		return 0, err
	}
	push := func() error { return w.client.run(ctx, "push", w.host, "-p", w.dir, "-f", w.dir) }
	if w.git {
		err := w.run(ctx, "add", "-A")
		if err == nil {
			err = w.run(ctx, "commit", "-q", "-m", text)
		}
		if err != nil {
			return 0, err
		}
		push = func() error { return w.run(ctx, "push", "-q", "ingot", "main") }
	}
	began := time.Now()
	err := push()
	if err == nil {
		err = w.p.awaitVersion(ctx, w.host, text)
	}
	return time.Since(began), err
}

// run runs git in the app's folder.
func (w *gitWay) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = w.dir, append(w.client.env(), "GIT_TERMINAL_PROMPT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return nil
}
