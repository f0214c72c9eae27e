package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
)

// bitsRow is a package or a droplet of an app.
type bitsRow struct {
	GUID    string `json:"guid"`
	State   string `json:"state"`
	Created string `json:"created_at"`
	Current bool   `json:"current"`
}

// bitsOf lists packages or droplets, newest first.
func (s *session) bitsOf(ctx context.Context, app client.App, kind, current string) (result, error) {
	found, err := client.List[client.Droplet](ctx, s.api, "/v3/"+kind, url.Values{"app_guids": {app.GUID}, "order_by": {"-created_at"}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	out := &listing[bitsRow]{key: kind, heading: []string{"guid", "state", "created"}, cells: func(b bitsRow) []string {
		state := strings.ToLower(b.State)
		if b.Current {
			state += " (current)"
		}
		return []string{b.GUID, state, shownTime(b.Created)}
	}}
	for _, d := range found {
		out.rows = append(out.rows, bitsRow{d.GUID, d.State, d.CreatedAt.UTC().Format("2006-01-02T15:04:05Z"), d.GUID == current})
	}
	return out, nil
}

// currentDroplet returns the guid of the app's current droplet, or "".
func (s *session) currentDroplet(ctx context.Context, app client.App) (string, error) {
	var d client.Droplet
	err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/droplets/current", nil, &d)
	if client.Status(err) == 404 {
		return "", nil
	}
	return d.GUID, err
}

type dropletsCommand struct{ oneApp }

func (c *dropletsCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting droplets of app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	current, err := s.currentDroplet(ctx, app)
	if err != nil {
		return nil, err
	}
	return s.bitsOf(ctx, app, "droplets", current)
}

type packagesCommand struct{ oneApp }

func (c *packagesCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting packages of app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	return s.bitsOf(ctx, app, "packages", "")
}

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
	path := s.w.path(or(c.Path, name))
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(s.w.path(or(c.Path, ".")), name)
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

// checkDroplet checks that a file can be a droplet before anything is changed.
func (f *pushFlags) checkDroplet(w *Env) error {
	if f.Path != "" || f.DockerImage != "" || len(f.Buildpacks) > 0 {
		return &usage{"--droplet cannot be combined with -p, -b or -o", "push"}
	}
	path := w.path(f.Droplet)
	file, err := os.Open(path)
	if err != nil {
		return &problem{What: "No droplet found at " + path + ".", Why: err.Error(), Try: fmt.Sprintf("'%s download-droplet APP' downloads one", w.Program), cause: err}
	}
	defer file.Close()
	var magic [2]byte
	if _, err := io.ReadFull(file, magic[:]); err != nil || magic != [2]byte{0x1f, 0x8b} {
		return &problem{What: path + " is not a droplet.", Why: "a droplet is a gzipped tar archive", Try: fmt.Sprintf("'%s download-droplet APP' downloads one; use -p to push files", w.Program)}
	}
	return nil
}

// uploadDroplet uploads a file as a droplet and waits until it is ready.
func (s *session) uploadDroplet(ctx context.Context, app client.App, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	var droplet client.Droplet
	body := map[string]any{"relationships": map[string]any{"app": client.Relate(app.GUID)}}
	if _, err := s.api.Post(ctx, "/v3/droplets", body, &droplet); err != nil {
		return "", err
	}
	s.say("Uploading droplet (%s)...", term.Size(info.Size()))
	s.progress.Step("Uploading "+app.Name, info.Size())
	reply, err := s.api.UploadDroplet(ctx, droplet.GUID, fileBits(path, info.Size()), s.progress.Add)
	if err == nil {
		err = s.api.Job(ctx, reply)
	}
	return droplet.GUID, err
}
