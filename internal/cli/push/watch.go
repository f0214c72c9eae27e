package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/plural"
	"ingot/internal/cli/apps"
	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/watch"
)

// devFlags are the flags of push --watch.
type devFlags struct {
	pushFlags
	NoLogs bool `long:"no-logs" description:"Do not show the app's log"`
}

// pushChanges is push --watch for the folder one is in.
func pushChanges(ctx context.Context, s *core.Session, w core.Words, f *devFlags) (core.Result, error) {
	if w["APP"] == "" && f.Manifest == "" {
		found, err := findManifest(s.Env.Dir)
		if err != nil {
			return nil, err
		}
		if found == "" || f.NoManifest {
			w["APP"] = filepath.Base(s.Env.Path(cmp.Or(f.Path, ".")))
		}
	}
	return pushApps(ctx, s, w, &pushAppFlags{pushFlags: f.pushFlags, Watch: true, NoLogs: f.NoLogs})
}

// watchable returns an error if the flags do not allow to watch.
func (f *pushAppFlags) watchable(s *core.Session, plans []plan) error {
	switch {
	case !f.Watch && f.NoLogs:
		return core.UsageError("--no-logs needs --watch")
	case !f.Watch:
		return nil
	case s.JSON:
		return core.UsageError("--watch cannot be combined with --json")
	case f.NoStart || f.Task || f.Droplet != "" || f.Strategy != "" || f.NoWait:
		return core.UsageError("--watch cannot be combined with --no-start, --task, --droplet, --strategy or --no-wait")
	case len(plans) != 1:
		return core.UsageError("--watch watches one app: the manifest has several, so pass the name of one")
	case plans[0].docker != "":
		return core.UsageError("--watch needs an app that is pushed as files")
	}
	if info, err := os.Stat(plans[0].path); err == nil && !info.IsDir() {
		return core.UsageError("--watch needs a folder: " + plans[0].path + " is a file")
	}
	return nil
}

// watching is a push that follows the changes to a folder.
type watching struct {
	*core.Session
	plan    plan
	app     cfapi.App
	folders *watch.Folders
	noLogs  bool
	// files and droplet belong to the app's current version, which a change differs
	// from. An empty droplet means that none is known: all files are sent.
	files   []bits.File
	droplet string
	// seen are the files at the last attempt, so that one that failed is not repeated.
	seen []bits.File
	// told means that a change was reported while a version was being started: whether it came
	// too late to give that version up or not, it has to be looked for.
	told bool
	// runs says which version runs; empty if none does.
	runs string
}

// watch pushes an app and then every change to its folder, until the user interrupts.
func (f *pushAppFlags) watch(ctx context.Context, s *core.Session, p plan, app cfapi.App, l *load,
	applied func() error) error {
	w := &watching{Session: s, plan: p, app: app, noLogs: f.NoLogs, folders: watch.New(watch.DefaultQuiet,
		watch.DefaultPoll)}
	defer w.folders.Close()
	<-l.done
	if l.err != nil {
		return l.err
	}
	w.seen = l.files
	w.folders.Set(bits.Folders(p.path, w.seen))
	if err := applied(); err != nil {
		return err
	}
	if app.State == "STARTED" {
		w.runs = "the version before this push"
	}
	began := time.Now()
	droplet, err := w.build(ctx, w.seen, apps.Streams(s))
	if err == nil {
		err = w.launch(ctx, droplet, w.seen)
	}
	if ctx.Err() != nil {
		return w.leave(ctx)
	}
	w.report(ctx, "pushed", "", began, err)
	if why := w.folders.Degraded(); why != nil {
		s.Say("The system cannot report changes (%v): files are compared every %s.", why, watch.DefaultPoll)
	}
	s.Say("Watching %s. Press Ctrl-C to stop; the app keeps running.", p.path)
	logs, stop := context.WithCancel(ctx)
	if !f.NoLogs {
		defer w.showLogs(logs)()
	}
	defer stop()
	for {
		again, err := w.step(ctx)
		if err != nil {
			return err
		}
		if ctx.Err() != nil || !again && w.folders.Wait(ctx) != nil {
			return w.leave(ctx)
		}
	}
}

// step pushes what has changed, if anything has. again means that there was another
// change meanwhile.
func (w *watching) step(ctx context.Context) (again bool, err error) {
	began := time.Now()
	files, err := w.rescan(ctx)
	if err != nil || files == nil {
		return false, err
	}
	news, gone := bits.Diff(w.seen, files)
	if len(news)+len(gone) == 0 {
		return false, nil
	}
	w.seen, w.told = files, false
	how, err := w.push(ctx, files)
	if ctx.Err() == nil {
		w.report(ctx, describeChange(news, gone), how, began, err)
	}
	return w.told || errors.Is(err, errNewer), nil
}

// rescan reads the folder, and watches the folders in it. Nil means that it cannot be
// read now.
func (w *watching) rescan(ctx context.Context) ([]bits.File, error) {
	files, err := bits.Rescan(ctx, w.plan.path, w.seen)
	switch {
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr // interrupted by the user
	case errors.Is(err, os.ErrNotExist):
		if _, gone := os.Stat(w.plan.path); gone != nil {
			return nil, &core.Problem{What: "The folder " + w.plan.path + " no longer exists.", Why: "it was deleted or renamed",
				Try: "the app keeps running; push again from another folder"}
		}
		return nil, nil // a file vanished while it was read; that is an event, too
	case err != nil:
		w.Say("%s cannot be read: %v", w.plan.path, err)
		return nil, nil
	}
	w.folders.Set(bits.Folders(w.plan.path, files))
	return files, nil
}

// push runs files as the new version, and returns how.
func (w *watching) push(ctx context.Context, files []bits.File) (string, error) {
	for {
		droplet, how, err := w.send(ctx, files)
		if err == nil {
			err = w.launch(ctx, droplet, files)
		}
		var away *client.Unreachable
		if !errors.As(err, &away) && client.Status(err) != http.StatusServiceUnavailable {
			return how, err
		}
		w.Say("%s cannot be reached: waiting for it.", w.Config.API)
		if err := w.awaitServer(ctx); err != nil {
			return how, err
		}
		w.droplet = "" // whether the change arrived is not known
	}
}

// serverPause is the interval of attempts to reach a server that is away.
const serverPause = 500 * time.Millisecond

func (w *watching) awaitServer(ctx context.Context) error {
	tick := time.NewTicker(serverPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if w.API.Get(ctx, "/v3/apps/"+w.app.GUID, nil, &w.app) == nil {
			return nil
		}
	}
}

// send makes a droplet of files: by what differs from the current version, if the
// platform knows it, or by a build. The text says how.
func (w *watching) send(ctx context.Context, files []bits.File) (droplet, how string, err error) {
	all := func() (string, string, error) {
		droplet, err := w.build(ctx, files, false)
		return droplet, "built from all files and restarted", err
	}
	if w.droplet == "" {
		return all()
	}
	news, gone := bits.Diff(w.files, files)
	archive, cleanup, err := makeArchive(w.Session, w.plan, &load{files: news}, nil)
	if err != nil {
		return "", "", err
	}
	defer cleanup()
	if len(news) == 0 {
		archive = nil
	}
	if len(news)+len(gone) == 0 {
		return w.droplet, "as before, restarted", nil // a failed change was undone
	}
	made, err := w.API.SendChange(ctx, w.app.GUID, client.Change{Droplet: cfapi.GUID{GUID: w.droplet}, Deleted: gone},
		archive)
	switch client.Status(err) {
	case http.StatusNotFound, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
		// A platform that cannot do it, or the app was pushed by another client.
		return all()
	}
	if err != nil {
		return "", "", err
	}
	if made.Droplet != nil {
		return made.Droplet.GUID, "synced and restarted", nil
	}
	droplet, err = w.compile(ctx, made.Package.GUID, w.detected(ctx, news, gone), false)
	return droplet, "built and restarted", err
}

// build uploads all files and builds them.
func (w *watching) build(ctx context.Context, files []bits.File, stream bool) (string, error) {
	done := make(chan struct{})
	close(done)
	pkg, err := upload(ctx, w.Session, w.plan, w.app, &load{files: files, done: done})
	if err != nil {
		return "", err
	}
	return w.compile(ctx, pkg, nil, stream)
}

// detected returns the buildpacks of the current version, if a change cannot mean others:
// files were changed only. To ask all buildpacks takes time.
func (w *watching) detected(ctx context.Context, news []bits.File, gone []string) []string {
	before := map[string]bool{}
	for _, f := range w.files {
		before[f.Path] = true
	}
	if len(gone) > 0 || slices.ContainsFunc(news, func(f bits.File) bool { return !before[f.Path] }) {
		return nil
	}
	var d cfapi.Droplet
	if w.API.Get(ctx, "/v3/droplets/"+w.droplet, nil, &d) != nil {
		return nil // the build finds them
	}
	var names []string
	for _, b := range d.Buildpacks {
		names = append(names, b.Name)
	}
	return names
}

// compile builds a package, after another build of the app that is in progress: one of
// a change that was given up, or of another client.
func (w *watching) compile(ctx context.Context, pkg string, buildpacks []string, stream bool) (string, error) {
	for {
		droplet, err := apps.StageWith(ctx, w.Session, w.app, pkg, buildpacks, stream)
		var refused *client.Error
		if !errors.As(err, &refused) || !refused.Says("Only one build can be STAGING at a time") {
			return droplet, err
		}
		w.Say("Waiting for another build of app %s to end...", w.app.Name)
		err = client.Poll(ctx, func() (bool, error) {
			builds, err := client.List[cfapi.Build](ctx, w.API, "/v3/builds", url.Values{"app_guids": {w.app.GUID},
				"states": {"STAGING"}})
			return len(builds) == 0, err
		})
		if err != nil {
			return "", err
		}
	}
}

// describeChange names what changed, shortly.
func describeChange(news []bits.File, gone []string) string {
	var names []string
	for _, f := range news {
		if !f.Mode.IsDir() {
			names = append(names, f.Path)
		}
	}
	for _, name := range gone {
		names = append(names, name+" deleted")
	}
	if len(names) == 0 {
		return "folders changed"
	}
	count := plural.Count(len(names), "file") + " changed"
	const shown = 3
	if len(names) > shown {
		names = append(names[:shown:shown], "…")
	}
	return count + " (" + strings.Join(names, ", ") + ")"
}

// report writes one line about a change, and why it failed.
func (w *watching) report(ctx context.Context, what, how string, began time.Time, err error) {
	w.Progress.Close()
	at := w.Out.Dim(w.Env.Now().Local().Format(time.TimeOnly))
	duration := shortDuration(time.Since(began))
	switch {
	case err == nil && how == "":
		w.Out.Printf("%s %s in %s", at, what, duration)
	case err == nil:
		w.Out.Printf("%s %s: %s in %s", at, what, how, duration)
	case errors.Is(err, errNewer):
		w.Out.Printf("%s %s: given up after %s for a newer change", at, what, duration)
	default:
		w.Out.Printf("%s %s: %s after %s. %s", at, what, w.Out.Bad("failed"), duration, w.left(ctx))
		w.Env.Fail(w.Output, w.Explain(err))
	}
}

func shortDuration(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return d.Round(time.Second).String()
}

// left says which version of the app runs.
func (w *watching) left(ctx context.Context) string {
	if w.runs == "" {
		return "No version of the app is running."
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverPause)
	defer cancel()
	if n, err := apps.Routable(ctx, w.Session, w.app); err == nil && n == 0 {
		return "No instance of the app is running."
	}
	return strings.ToUpper(w.runs[:1]) + w.runs[1:] + " keeps running."
}

// leave says what is left when the user ends the watch.
func (w *watching) leave(ctx context.Context) error {
	w.Progress.Close()
	w.Say("Stopped watching app %s. %s", w.app.Name, w.left(ctx))
	return nil
}

// showLogs shows the log of the app until ctx is done. The returned function waits for
// the end.
func (w *watching) showLogs(ctx context.Context) func() {
	if w.Config.Links.LogCache == "" {
		return func() {}
	}
	var done sync.WaitGroup
	done.Go(func() {
		since := w.Env.Now()
		show := func(l client.Line) {
			since = l.Time
			if strings.HasPrefix(l.Source, "APP/") {
				apps.ShowLine(w.Session, l)
			}
		}
		for ctx.Err() == nil {
			_ = apps.Tail(w.Session)(ctx, w.app.GUID, since, show) // a server that is away comes back
			select {
			case <-ctx.Done():
			case <-time.After(serverPause):
			}
		}
	})
	return done.Wait
}

func devCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("dev", "[APP] [flags]", "Push an app, then every change to its files", core.NeedsSpace, pushChanges, "",
			"my-app -p public --no-logs").Slow().
			Explained("The same as push --watch. APP can be omitted: it is the app of the manifest or, without one, has the "+
				"name of the folder. Press Ctrl-C to stop; the app keeps running."),
	)
}
