package cli

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

	"ingot/internal/cli/term"
)

type setDropletCommand struct {
	Args struct {
		App     string `positional-arg-name:"APP" required:"yes"`
		Droplet string `positional-arg-name:"DROPLET_GUID" required:"yes"`
	} `positional-args:"yes"`
}

func (c *setDropletCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Setting app %s to droplet %s", c.Args.App, c.Args.Droplet)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if err := s.setDroplet(ctx, app, c.Args.Droplet); err != nil {
		return nil, err
	}
	s.ok()
	s.say("TIP: Takes effect after a restart: '%s restart %s'.", s.w.Program, app.Name)
	return &made{"droplet", app.Name, c.Args.Droplet, true}, nil
}

type downloadDropletCommand struct {
	Path    string `long:"path" short:"p" value-name:"FILE" description:"File to write (default: droplet_GUID.tgz in this folder)"`
	Droplet string `long:"droplet" value-name:"GUID" description:"Droplet guid (default: the current droplet)"`
	oneApp
}

// saved is a file that was downloaded.
type saved struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (*saved) show(*term.Printer) {}

func (c *downloadDropletCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Downloading the droplet of app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	droplet := c.Droplet
	if droplet == "" {
		if droplet, err = s.currentDroplet(ctx, app); err != nil {
			return nil, err
		}
	}
	if droplet == "" {
		return nil, &problem{What: "App " + app.Name + " has no droplet to download.", Why: "it has not been staged", Try: fmt.Sprintf("'%s push %s'", s.w.Program, app.Name)}
	}
	name := dropletFile(droplet)
	path := s.w.path(cmp.Or(c.Path, name))
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(s.w.path(cmp.Or(c.Path, ".")), name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it may contain secrets compiled into the app
	if errors.Is(err, os.ErrExist) {
		return nil, &problem{What: path + " already exists.", Why: "files are never overwritten", Try: "choose another file with --path", cause: err}
	}
	if err != nil {
		return nil, err
	}
	s.progress.Step("Downloading "+app.Name, 0)
	n, err := s.api.Download(ctx, "/v3/droplets/"+url.PathEscape(droplet)+"/download", f)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // do not leave a partial file
		return nil, err
	}
	s.say("%s (%s)", path, term.Size(n))
	s.ok()
	return &saved{path, n}, nil
}

// dropletFile returns the file name for a droplet.
func dropletFile(guid string) string { return "droplet_" + fileName(guid) + ".tgz" }

// fileName makes a file name of a name that comes from the server: it must not contain path
// separators or terminal control characters.
func fileName(name string) string {
	plain := func(r rune) rune {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}
	return strings.Map(plain, path.Base(name))
}
