package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"

	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
)

type pushCommand struct {
	pushFlags
	Watch  bool `long:"watch" description:"Keep watching the folder and run every change; press Ctrl-C to stop"`
	NoLogs bool `long:"no-logs" description:"With --watch, do not show the app's log"`
	Args   struct {
		App string `positional-arg-name:"APP"`
	} `positional-args:"yes"`
}

// pushed are the apps that were pushed.
type pushed struct {
	Apps []*summary `json:"apps"`
}

func (r *pushed) show(p *term.Printer) {
	for _, a := range r.Apps {
		a.show(p)
	}
}

func (c *pushCommand) run(ctx context.Context, s *session) (result, error) {
	c.AppName = c.Args.App
	if c.NoStart && (c.Strategy != "" || c.Task) {
		return nil, &usage{"--no-start cannot be combined with --strategy or --task", "push"}
	}
	options, err := c.options(&c.pushFlags)
	if err != nil {
		return nil, &usage{err.Error(), "push"}
	}
	for _, size := range []struct{ flag, text string }{{"-m", c.Memory}, {"-k", c.Disk}} {
		if size.text == "" {
			continue
		}
		if _, err := megabytes(size.text); err != nil {
			return nil, &usage{size.flag + ": " + err.Error(), "push"}
		}
	}
	if c.Droplet != "" {
		if err := c.checkDroplet(s.w); err != nil {
			return nil, err
		}
	}
	doc, plans, err := c.plans(s.w)
	if err == nil {
		err = c.watchable(s, plans)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range plans {
		s.doing("Pushing app %s", p.name)
	}
	// Check that there is something to push before anything is changed. The files
	// are read while the platform applies the manifest.
	loads := make([]*load, len(plans))
	for i, p := range plans {
		if loads[i], err = beginLoad(ctx, p); err != nil {
			return nil, err
		}
	}
	s.warn(doc)
	s.say("Applying the manifest...")
	s.progress.Step("Applying the manifest", 0)
	applied, err := s.beginManifest(ctx, doc)
	if err != nil {
		return nil, err
	}
	apps, err := s.planned(ctx, plans)
	if err != nil {
		// A manifest that fails creates nothing: report its own error.
		if failed := applied(); failed != nil {
			return nil, failed
		}
		return nil, err
	}
	if c.Watch {
		return nil, c.watch(ctx, s, plans[0], apps[plans[0].name], loads[0], applied)
	}
	out := &pushed{Apps: []*summary{}}
	for i, p := range plans {
		one, err := c.pushOne(ctx, s, p, apps[p.name], loads[i], applied, options)
		if one != nil {
			out.Apps = append(out.Apps, one)
		}
		if err != nil && len(out.Apps) == 0 {
			return nil, err
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// beginManifest sends a manifest. The returned function waits until it is
// applied; the apps exist before that.
func (s *session) beginManifest(ctx context.Context, doc *document) (func() error, error) {
	content, err := doc.bytes()
	if err != nil {
		return nil, err
	}
	reply, err := s.api.Do(ctx, client.Call{
		Method: http.MethodPost, URL: "/v3/spaces/" + s.cfg.Space.GUID + "/actions/apply_manifest", Body: content, ContentType: "application/x-yaml",
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var jobErr error
	go func() {
		defer close(done)
		jobErr = s.api.Job(ctx, reply)
	}()
	return func() error {
		<-done
		return jobErr
	}, nil
}

// planned finds the apps of the plans.
func (s *session) planned(ctx context.Context, plans []plan) (map[string]client.App, error) {
	var names []string
	for _, p := range plans {
		names = append(names, strings.ReplaceAll(p.name, ",", "%2C")) // escape commas, which separate names
	}
	found, err := client.List[client.App](ctx, s.api, "/v3/apps", s.in("names", strings.Join(names, ",")))
	if err != nil {
		return nil, err
	}
	apps := map[string]client.App{}
	for _, a := range found {
		apps[a.Name] = a
	}
	for _, p := range plans {
		if _, ok := apps[p.name]; !ok {
			return nil, &problem{What: "App " + p.name + " does not exist although its manifest was applied.", Try: "push again"}
		}
	}
	return apps, nil
}

// pushOne uploads the files of one app, stages and starts it.
func (c *pushCommand) pushOne(ctx context.Context, s *session, p plan, app client.App, l *load, applied func() error, options deployOptions) (*summary, error) {
	var pkg, droplet string
	var err error
	if p.droplet != "" {
		droplet, err = s.uploadDroplet(ctx, app, p.droplet)
	} else {
		pkg, err = s.upload(ctx, p, app, l)
	}
	if err != nil {
		return nil, err
	}
	if err := applied(); err != nil {
		return nil, err
	}
	if c.NoStart {
		if droplet != "" {
			if err := s.setDroplet(ctx, app, droplet); err != nil {
				return nil, err
			}
		}
		if app.State == "STARTED" {
			if err := s.action(ctx, &app, "stop"); err != nil {
				return nil, err
			}
		}
		return s.summarize(ctx, app)
	}
	if droplet == "" {
		if droplet, err = s.stage(ctx, app, pkg); err != nil {
			return nil, err
		}
	}
	if c.Strategy != "" && !c.Task {
		return s.deploy(ctx, app, droplet, c.deployFlags, options)
	}
	if c.Task && app.State == "STARTED" {
		if err := s.action(ctx, &app, "stop"); err != nil {
			return nil, err
		}
	}
	if err := s.setDroplet(ctx, app, droplet); err != nil {
		return nil, err
	}
	if c.Task {
		return s.summarize(ctx, app)
	}
	if err := s.action(ctx, &app, "restart"); err != nil {
		return nil, err
	}
	s.say("Waiting for app %s to start...", s.out.Bold(app.Name))
	failed := s.awaitRunning(ctx, app)
	if ctx.Err() != nil {
		return nil, failed
	}
	sum, err := s.summarize(ctx, app)
	if failed != nil {
		err = failed
	}
	return sum, err
}

// apply-manifest

type applyManifestCommand struct {
	Manifest  string   `short:"f" value-name:"FILE" description:"Path to the manifest (default: manifest.yml in this folder)"`
	Vars      []string `long:"var" value-name:"NAME=VALUE" description:"Set a manifest variable"`
	VarsFiles []string `long:"vars-file" value-name:"FILE" description:"YAML file with manifest variables"`
}

// applied is the result of apply-manifest.
type applied struct {
	Apps []string `json:"apps"`
}

func (*applied) show(*term.Printer) {}

func (c *applyManifestCommand) run(ctx context.Context, s *session) (result, error) {
	vars, err := s.w.readVars(c.VarsFiles, c.Vars)
	if err != nil {
		return nil, err
	}
	path := s.w.Dir
	if c.Manifest != "" {
		path = s.w.path(c.Manifest)
	}
	doc, err := readManifest(path, vars)
	if err != nil {
		return nil, err
	}
	out := &applied{}
	for i, app := range doc.Applications {
		out.Apps = append(out.Apps, text0(app, "name"))
		doc.Applications[i] = without(app, "path")
	}
	s.doing("Applying manifest %s", s.w.path(or(c.Manifest, ".")))
	s.warn(doc)
	s.progress.Step("Applying the manifest", 0)
	wait, err := s.beginManifest(ctx, doc)
	if err == nil {
		err = wait()
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return out, nil
}

// load reads an app's files in the background.
type load struct {
	done    chan struct{}
	files   []bits.File
	archive int64 // length of the archive, if one is pushed
	err     error
}

// beginLoad finds the files of an app and starts reading them.
func beginLoad(ctx context.Context, p plan) (*load, error) {
	l := &load{done: make(chan struct{})}
	if p.docker == "" && p.droplet == "" {
		if err := l.find(ctx, p.path); err != nil {
			return nil, err
		}
	}
	go func() {
		defer close(l.done)
		l.err = bits.Sum(ctx, l.files)
	}()
	return l, nil
}

func (l *load) find(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &problem{What: "Nothing to push at " + path + ".", Why: err.Error(), Try: "pass the folder or archive with -p", cause: err}
	}
	if !info.IsDir() {
		ok, err := bits.IsArchive(path)
		if err != nil {
			return err
		}
		if !ok {
			return &problem{What: path + " cannot be pushed.", Why: "it is neither a folder nor a zip, jar or war", Try: "push the folder it is in"}
		}
		l.archive = info.Size()
		return nil
	}
	if l.files, err = bits.Scan(ctx, path); err != nil {
		return err
	}
	if len(l.files) == 0 {
		return &problem{What: "Nothing to push in " + path + ".", Why: "the folder is empty, or .cfignore excludes all files"}
	}
	return nil
}

// fileBits returns the upload of a file of the given length.
func fileBits(path string, length int64) *client.Bits {
	return &client.Bits{Length: length, Write: func(w io.Writer) error { return bits.Copy(w, path, length) }}
}
