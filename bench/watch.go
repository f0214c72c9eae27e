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
	"syscall"
	"time"
)

var watchSection = Section{
	Name: "watch",
	About: "push --watch of apps of 1,000 files: from saving a file to the first answer of the new version, beside cf " +
		"push of the same change",
	Run: measureWatch,
}

// The longest times from saving a file to the answer, in milliseconds. A quarter of a second
// of each is the time in which a new version proves itself.
const (
	watchGoal         = 750
	watchCompiledGoal = 1250
)

// watchedApp is an app of 1,000 files, one of which is changed.
type watchedApp struct {
	name     string
	needs    string // program of the language
	changed  string // file that has the answer
	answer   string // its content, for fmt
	files    map[string]string
	many     string // name of the other files, for fmt
	content  string // of those, for fmt; empty means goFiles
	compiled bool
}

var watchedApps = []watchedApp{
	{
		name: "node", needs: "node", changed: "answer.js", answer: "module.exports = %q;\n", many: "lib/d%02d/f%03d.js",
		content: "exports.value = %d; // a module like many others\n",
		files: map[string]string{
			"package.json": `{"name":"watched","version":"1.0.0","scripts":{"start":"node server.js"}}`,
			"server.js": "const answer = require('./answer.js');\nrequire('http').createServer((q, s) => " +
				"s.end(answer)).listen(process.env.PORT);\n",
		},
	},
	{
		name: "python", needs: "python3", changed: "answer.py", answer: "answer = %q\n", many: "lib/d%02d/f%03d.py",
		content: "value = %d  # a module like many others\n",
		files: map[string]string{
			"requirements.txt": "",
			"app.py": "import os\nfrom http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\nfrom answer import " +
				"answer\n\n" +
				"class Handler(BaseHTTPRequestHandler):\n    def do_GET(self):\n        self.send_response(200)\n        " +
				"self.end_headers()\n        self.wfile.write(answer.encode())\n\n" +
				"ThreadingHTTPServer(('0.0.0.0', int(os.environ['PORT'])), Handler).serve_forever()\n",
		},
	},
	{
		name: "static", changed: "index.html", answer: "%q\n", many: "pages/d%02d/f%03d.html", content: "<p>page %d</p>\n",
		files: map[string]string{"Staticfile": ""},
	},
	{
		name: "go", needs: "go", changed: "answer.go", answer: "package main\n\nconst answer = %q\n",
		many: "internal/p%02d/f%03d.go", compiled: true,
		files: map[string]string{"go.mod": "module example.com/watched\n\ngo 1.21\n"},
	},
}

const (
	watchedFiles   = 1000
	watchedFolders = 20
)

// write writes the files of the app to a folder.
func (a *watchedApp) write(dir string) error {
	files := map[string]string{a.changed: fmt.Sprintf(a.answer, "version 0")}
	for name, text := range a.files {
		files[name] = text
	}
	if a.compiled {
		imports, sum := "", "0"
		for i := range watchedFolders {
			imports += fmt.Sprintf("\t\"example.com/watched/internal/p%02d\"\n", i)
			sum += fmt.Sprintf(" + p%02d.Value%d()", i, i)
		}
		files["main.go"] = "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n\t\"os\"\n\n" + imports +
			")\n\nfunc main() {\n\tn := " + sum +
			"\n\t_ = http.ListenAndServe(\":\"+os.Getenv(\"PORT\"), http.HandlerFunc(func(w http.ResponseWriter, _ " +
			"*http.Request) { fmt.Fprint(w, answer, n) }))\n}\n"
	}
	for i := 0; len(files) < watchedFiles; i++ {
		text := fmt.Sprintf(a.content, i)
		if a.compiled {
			text = fmt.Sprintf("package p%02d\n\n// Value%d is a value.\nfunc Value%d() int { return %d }\n",
				i%watchedFolders, i, i, i)
		}
		files[fmt.Sprintf(a.many, i%watchedFolders, i)] = text
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func measureWatch(ctx context.Context, r *Report) (err error) {
	rounds, pushes := 11, 3
	if r.Short {
		rounds, pushes = 5, 1
	}
	cf, err := cfProgram()
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ours, peer := &pusher{name: "ingot", program: r.Binary}, &pusher{name: "cf", program: cf}
	for _, c := range []*pusher{ours, peer} {
		c.home = filepath.Join(r.Scratch, "watch-"+c.name)
		if err := os.MkdirAll(c.home, 0o700); err != nil {
			return err
		}
		if err := c.run(ctx, "login", "-a", "http://"+p.API, "-u", "admin", "-p", adminPassword, "-o", "demo", "-s",
			"dev"); err != nil {
			return err
		}
	}
	for _, a := range watchedApps {
		if _, err := exec.LookPath(a.needs); a.needs != "" && err != nil {
			r.Note("%s was not measured: %s is not installed.", a.name, a.needs)
			continue
		}
		if err := a.measure(ctx, r, p, ours, peer, rounds, pushes); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	p.noteEngine(r)
	r.Note("each app has %d files in %d folders. The time is from writing the file to the first answer of the new "+
		"version through its route, asked every 2 ms, with a second of rest between changes; %d changes each. cf push is "+
		"the same change to the same folder, from the start of the client to the answer, %d times.",
		watchedFiles, watchedFolders, rounds, pushes)
	return nil
}

// watchRun is the measurement of one app.
type watchRun struct {
	*watchedApp
	p         *Platform
	dir, host string
	version   int
}

// change saves the next version, and returns the time until it answers.
func (w *watchRun) change(ctx context.Context, push func() error) (time.Duration, error) {
	w.version++
	text := fmt.Sprintf("version %d", w.version)
	began := time.Now()
	if err := writeFile(filepath.Join(w.dir, w.changed), fmt.Sprintf(w.answer, text)); err != nil {
		return 0, err
	}
	if push != nil {
		if err := push(); err != nil {
			return 0, err
		}
	}
	err := w.p.awaitVersion(ctx, w.host, text)
	return time.Since(began), err
}

// saves returns the times of changes while a client watches the folder.
func (w *watchRun) saves(ctx context.Context, c *pusher, rounds int) (all []time.Duration, err error) {
	log, err := os.Create(w.dir + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, c.program, "push", w.host, "--watch", "--no-logs", "-p", w.dir, "-m", "256M",
		"-k", "512M")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.home, c.env(), log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait() // how it ends does not matter here
		if err != nil {
			said, _ := os.ReadFile(w.dir + ".log")
			err = fmt.Errorf("%w\n%s", err, said)
		}
	}()
	if err := w.p.awaitVersion(ctx, w.host, "version 0"); err != nil {
		return nil, err
	}
	for i := range rounds + 1 {
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
		took, err := w.change(ctx, nil)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first change is a warm-up
			all = append(all, took)
		}
	}
	return all, nil
}

// measure changes a file several times, first with a watching client and then with cf push.
func (a *watchedApp) measure(ctx context.Context, r *Report, p *Platform, ours, peer *pusher, rounds,
	pushes int) (err error) {
	w := &watchRun{watchedApp: a, p: p, dir: filepath.Join(r.Scratch, "watched-"+a.name), host: "watched-" + a.name}
	if err := a.write(w.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.removeNamed(ctx, w.host)) }()
	saved, err := w.saves(ctx, ours, rounds)
	if err != nil {
		return err
	}
	if err := pause(ctx, 6*time.Second); err != nil { // the deployment of the last change ends
		return err
	}
	var pushed []time.Duration
	for range pushes {
		took, err := w.change(ctx, func() error {
			return peer.run(ctx, "push", w.host, "-p", w.dir, "-m", "256M",
				"-k", "512M")
		})
		if err != nil {
			return err
		}
		pushed = append(pushed, took)
	}
	goal := watchGoal
	if a.compiled {
		goal = watchCompiledGoal
	}
	median, worst := medianAndWorst(saved)
	other, _ := medianAndWorst(pushed)
	r.Add(Figure{
		Name: a.name + ", save to answer, median", Value: median, Unit: "ms", Beside: &Beside{"cf push, median", other},
		Goal:   Below(float64(goal)),
		Detail: "worst " + number(worst) + " ms",
	})
	return nil
}

// awaitVersion waits until an app answers with a text.
func (p *Platform) awaitVersion(ctx context.Context, host, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	last := ""
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.API+"/", http.NoBody)
		if err != nil {
			return err
		}
		req.Host = host + ".apps.localhost"
		if reply, err := setUp.Do(req); err == nil {
			body := make([]byte, 256)
			n, _ := reply.Body.Read(body)
			_ = reply.Body.Close()
			if last = string(body[:n]); strings.Contains(last, text) {
				return nil
			}
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not answer %q but %q: %w", host, text, last, err)
		}
	}
}
