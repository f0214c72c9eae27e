package apps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

func assignDroplet(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Setting app %s to droplet %s", w["APP"], w["DROPLET_GUID"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if err := SetDroplet(ctx, s, app, w["DROPLET_GUID"]); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("TIP: Takes effect after a restart: '%s restart %s'.", s.Env.Program, app.Name)
	return &core.Made{Kind: "droplet", Name: app.Name, GUID: w["DROPLET_GUID"], Existed: true}, nil
}

type downloadDropletFlags struct {
	Path    string `long:"path" short:"p" value-name:"FILE" description:"File to write (default: droplet_GUID.tgz in this folder)"`
	Droplet string `long:"droplet" value-name:"GUID" description:"Droplet guid (default: the current droplet)"`
}

// saved is a file that was downloaded.
type saved struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (*saved) Show(*term.Printer) {}

func downloadDroplet(ctx context.Context, s *core.Session, app cfapi.App,
	f *downloadDropletFlags) (core.Result, error) {
	droplet := f.Droplet
	if droplet == "" {
		var err error
		if droplet, err = currentDroplet(ctx, s, app); err != nil {
			return nil, err
		}
	}
	if droplet == "" {
		return nil, &core.Problem{What: "App " + app.Name + " has no droplet to download.", Why: "it has not been staged",
			Try: fmt.Sprintf("'%s push %s'", s.Env.Program, app.Name)}
	}
	name := dropletFile(droplet)
	path := s.Env.Path(cmp.Or(f.Path, name))
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(s.Env.Path(cmp.Or(f.Path, ".")), name)
	}
	// it may contain secrets compiled into the app
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, &core.Problem{What: path + " already exists.", Why: "files are never overwritten",
			Try: "choose another file with --path", Err: err}
	}
	if err != nil {
		return nil, err
	}
	s.Progress.Step("Downloading "+app.Name, 0)
	n, err := s.API.Download(ctx, "/v3/droplets/"+url.PathEscape(droplet)+"/download", file)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path) // do not leave a partial file
		return nil, err
	}
	s.Say("%s (%s)", path, term.Size(n))
	s.OK()
	return &saved{path, n}, nil
}

// dropletFile returns the file name for a droplet.
func dropletFile(guid string) string { return "droplet_" + FileName(guid) + ".tgz" }

// FileName makes a file name of a name that comes from the server: it must not contain path
// separators or terminal control characters.
func FileName(name string) string {
	plain := func(r rune) rune {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}
	return strings.Map(plain, path.Base(name))
}

func dropletsCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("download-droplet", "APP [--path FILE]", "Download an app's droplet", core.NeedsSpace,
			core.OnApp("Downloading the droplet of app %s", downloadDroplet),
			"my-app --path my-app.tgz").Slow(),
		core.Entry("set-droplet", "APP DROPLET_GUID", "Set an app's current droplet", core.NeedsSpace, assignDroplet,
			"my-app 1b2c3d"),
	)
}
