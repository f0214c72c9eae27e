package cli

import (
	"cmp"
	"context"

	"ingot/internal/cli/term"
)

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
	s.doing("Applying manifest %s", s.w.path(cmp.Or(c.Manifest, ".")))
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
