package gitpush

import (
	"io"
	"os"
	"path"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/plural"
	"ingot/internal/base/pushignore"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/manifest"
	"ingot/internal/platform/storage/gitpack"
)

// maxIgnore limits the file with the names of files that are not deployed.
const maxIgnore = 256 << 10

// deploy reads the objects of a push and deploys a commit.
func (p *push) deploy(c *command, body io.Reader) error {
	objects, err := gitpack.New(p.Scratch, gitpack.Limits{Bytes: p.MaxUpload})
	if err != nil {
		return err
	}
	defer objects.Close()
	if p.kept.current(p.app) {
		if err := objects.Read(p.kept.pack); err != nil {
			return err
		}
	}
	if err := objects.Read(body); err != nil {
		return err
	}
	all, err := objects.Closure(c.new)
	if err != nil {
		return err
	}
	snapshot, err := objects.Snapshot(c.new)
	if err != nil {
		return err
	}
	p.objects = objects
	p.terminal.say("Deploying %.7s (%s) as %s in org %s / space %s", c.new, oneLine(snapshot.Subject, 60), p.name,
		p.org.Name, p.space.Name)
	droplet, err := p.build(snapshot)
	if err != nil {
		return err
	}
	// What is deployed is deployed, also if it cannot be kept: then the next push has everything.
	kept := &stored{ref: c.ref, commit: c.new, droplet: droplet}
	if err := p.keep(p.r.Context(), p.app.GUID, kept, objects, all); err != nil {
		p.Log.WarnContext(p.r.Context(), "the git repository of an app could not be stored", "app", p.app.GUID, "error", err)
	}
	return nil
}

// build makes the app from the files of a commit, and starts it. It returns the droplet.
func (p *push) build(s *gitpack.Snapshot) (string, error) {
	m, folder, err := p.manifest(s)
	if err != nil {
		return "", err
	}
	file, size, err := p.zip(s, folder)
	if err != nil {
		return "", err
	}
	defer file.Close()
	p.terminal.say("Applying the manifest...")
	if err := p.applyManifest(m); err != nil {
		return "", err
	}
	w := p.follow(p.r.Context(), p.terminal, p.app.GUID)
	defer w.close()
	pkg, err := p.Source.Package(p.r, p.app.GUID, file, size)
	if err != nil {
		return "", err
	}
	droplet, err := p.stage(w, pkg)
	if err != nil {
		return "", err
	}
	return droplet, p.launch(w, droplet)
}

// manifest returns the manifest of the commit for the app.
func (p *push) manifest(s *gitpack.Snapshot) (*manifest.Manifest, string, error) {
	rules, err := p.Source.Apps.ManifestRules(p.r)
	if err != nil {
		return nil, "", err
	}
	text, err := s.Find("manifest.yml", manifest.MaxBytes)
	if err == nil && text == nil {
		text, err = s.Find("manifest.yaml", manifest.MaxBytes)
	}
	if err != nil {
		return nil, "", err
	}
	return manifest.ParseOne(text, p.name, manifest.Flags{}, rules...)
}

// zip writes the files of the app to a temporary file, which is removed already.
func (p *push) zip(s *gitpack.Snapshot, folder string) (*os.File, int64, error) {
	var patterns []byte
	for _, name := range pushignore.Files {
		found, err := s.Find(path.Join(folder, name), maxIgnore)
		if err != nil {
			return nil, 0, err
		}
		if found != nil {
			patterns = found
			break
		}
	}
	file, err := os.CreateTemp(p.Scratch, "git-")
	if err != nil {
		return nil, 0, err
	}
	size, err := p.zipTo(file, s, folder, pushignore.Parse(string(patterns)))
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, size, nil
}

func (p *push) zipTo(file *os.File, s *gitpack.Snapshot, folder string, rules pushignore.Rules) (int64, error) {
	if err := os.Remove(file.Name()); err != nil {
		return 0, err
	}
	out := gitpack.Bounded(file, p.MaxUpload-p.objects.Used(), p.MaxUpload)
	n, err := s.Zip(out, folder, func(f gitpack.File) bool { return !rules.Exclude(f.Path, f.Mode.IsDir()) })
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fault.New(fault.Unprocessable, "the commit has no files to deploy%s", below(folder))
	}
	size, err := file.Seek(0, io.SeekEnd)
	p.terminal.say("%s, %.1f MB", plural.Count(n, "file"), float64(size)/1e6)
	return size, err
}

func below(folder string) string {
	if folder == "" {
		return ""
	}
	return " in the folder " + folder
}

// applyManifest creates or changes the app, and waits until its services are bound.
func (p *push) applyManifest(m *manifest.Manifest) error {
	warnings, err := p.Source.Apply(p.r, func(req *rest.Request) (*platform.Space, error) {
		return req.SpaceNamed(p.space.GUID, platform.Develop)
	}, m)
	if err != nil {
		return err
	}
	for _, text := range warnings {
		p.terminal.say("Warning: %s", text)
	}
	p.target, err = p.find(p.r, platform.Develop)
	if err == nil && p.app == nil {
		err = fault.New(fault.Unprocessable, "the app was deleted in the meantime: push again")
	}
	return err
}

// stage builds a droplet and shows the build's log.
func (p *push) stage(w *watch, pkg *platform.Package) (string, error) {
	p.terminal.say("Building...")
	build, err := rest.Update(p.Server, p.r, func(req *rest.Request) (*platform.Build, error) {
		app, err := req.AppNamed(p.app.GUID, platform.Develop)
		if err != nil {
			return nil, err
		}
		return p.Source.Build(req, app, pkg)
	})
	if err != nil {
		return "", err
	}
	err = w.until(p.r.Context(), func() (bool, error) {
		err := p.Store.View(p.r.Context(), func(tx platform.Tx) (err error) {
			build, err = tx.Builds().Get(build.GUID)
			return err
		})
		if err == nil && build.State != platform.BuildStaging && build.State != platform.BuildStaged {
			why, _, _ := strings.Cut(build.Error, "\n") // then come the lines that were shown
			err = fault.New(fault.Unprocessable, "the build failed: %s", why)
		}
		return err == nil && build.State == platform.BuildStaged, err
	})
	return build.DropletGUID, err
}
